import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { copyFile, mkdir, readdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { cachedTool, findGo, run, toolsDir } from "./tools.ts";

/*
 * franz-go, a Kafka client in Go: programs of ours that use it, and its own tests. They are built once on a machine; Go holds what it downloads
 * against its checksum database.
 */
export const FRANZ_GO_VERSION = "1.22.3";
const MODULE = "github.com/twmb/franz-go";
/** A compiler that shares a busy machine takes its time. */
const BUILD_MS = 1_800_000;

/** Builds `source`, the text of a main package that uses franz-go; gives the program's path. Throws, naming what is missing. */
export async function ensureFranzGoProgram(name: string, source: string): Promise<string> {
  const version = `${FRANZ_GO_VERSION}-${createHash("sha256").update(source).digest("hex").slice(0, 12)}`;
  const go = findGo();
  if (go === undefined && !existsSync(join(toolsDir(), `${name}-${version}`, name)))
    throw new Error(`${name} needs Go, which is not on this machine`);
  const tool = await cachedTool(name, version, name, async (dir) => {
    const options = { cwd: dir, env: { GOFLAGS: "-buildvcs=false -mod=mod" }, timeoutMs: BUILD_MS };
    const compiler = go ?? "go";
    await writeFile(join(dir, "main.go"), source);
    await run(compiler, ["mod", "init", "program"], options);
    await run(compiler, ["get", `${MODULE}@v${FRANZ_GO_VERSION}`], options);
    await run(compiler, ["build", "-trimpath", "-ldflags=-s -w", "-o", name, "."], options);
  });
  return tool.path;
}

export interface KgoTests {
  /** The tests of franz-go's package kgo, as one program. */
  readonly tests: string;
  /** Where they run: some read the package's sources. */
  readonly folder: string;
  /** Go's own translation of what such a program writes into `go test -json`'s events. */
  readonly test2json: string;
}
/** franz-go's own tests, which its module brings; built by Go. Throws, naming what is missing. */
export async function ensureKgoTests(): Promise<KgoTests> {
  const tool = await cachedTool("kgo-tests", FRANZ_GO_VERSION, "kgo.test", async (dir) => {
    const go = findGo();
    if (go === undefined) throw new Error("franz-go's own tests need Go, which is not on this machine");
    const options = { cwd: dir, env: { GOFLAGS: "-buildvcs=false -mod=mod" }, timeoutMs: BUILD_MS };
    await run(go, ["mod", "init", "tests"], options);
    await run(go, ["get", "-t", `${MODULE}/pkg/kgo@v${FRANZ_GO_VERSION}`], options);
    await run(go, ["build", "-trimpath", "-ldflags=-s -w", "-o", "test2json", "cmd/test2json"], options);
    const sources = (await run(go, ["list", "-f", "{{.Dir}}", `${MODULE}/pkg/kgo`], options)).trim();
    await mkdir(join(dir, "kgo"));
    for (const name of await readdir(sources)) if (name.endsWith(".go")) await copyFile(join(sources, name), join(dir, "kgo", name));
    await run(go, ["test", "-c", "-trimpath", "-ldflags=-s -w", "-o", "kgo.test", `${MODULE}/pkg/kgo`], options);
  });
  const home = dirname(tool.path);
  return { tests: tool.path, folder: join(home, "kgo"), test2json: join(home, "test2json") };
}

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { cachedTool, findGo, run, toolsDir } from "./tools.ts";

/*
 * franz-go, a Kafka client in Go, with programs of ours that use it. They are built once on a machine.
 */
const FRANZ_GO_VERSION = "1.22.3";
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

/**
 * Builds the images, one a target:
 *
 *     node deploy/docker/build.ts                              every target with docker, buildah or podman, on the base of the Dockerfile
 *     node deploy/docker/build.ts --base node:24-alpine …      not this: musl is not tested; a base with glibc and Node.js 24
 *     node deploy/docker/build.ts --minimal-base               on a base made of this very Node.js: no registry is asked
 *     node deploy/docker/build.ts --target proxy --target cli  only these
 *     node deploy/docker/build.ts --prefix registry.example.com/sluice- --tag 0.1.0
 *
 * Prints the sizes of what was built.
 */
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { layOutProgram } from "./base.ts";
import { Builder } from "./builder.ts";
import { root, stage, targets, type Target } from "./stage.ts";

const MiB = 1024 * 1024;

const { values } = parseArgs({
  options: {
    tool: { type: "string" },
    base: { type: "string" },
    "minimal-base": { type: "boolean", default: false },
    target: { type: "string", multiple: true },
    prefix: { type: "string", default: "localhost/sluice-" },
    tag: { type: "string", default: (JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string }).version },
  },
});

const isTarget = (name: string): name is Target => (targets as readonly string[]).includes(name);

function folderBytes(folder: string): number {
  let bytes = 0;
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) bytes += folderBytes(path);
    else if (entry.isFile()) bytes += statSync(path).size;
  }
  return bytes;
}
const mib = (bytes: number): string => `${(bytes / MiB).toFixed(1)} MiB`;

const unknown = values.target?.find((name) => !isTarget(name));
if (unknown !== undefined) throw new Error(`no target ${unknown}; targets: ${targets.join(", ")}`);
const wanted = values.target?.filter(isTarget) ?? targets;
const builder = Builder.find(values.tool);
const work = mkdtempSync(join(tmpdir(), "sluice-images-"));
try {
  let { base } = values;
  if (values["minimal-base"]) {
    base = `${values.prefix}base:${values.tag}`;
    layOutProgram(join(work, "base"), process.execPath, "node");
    builder.build(join(work, "base"), base, []);
    process.stdout.write(`${base}: ${mib(builder.bytes(base))}\n`);
  }
  const context = join(work, "context");
  for (const target of wanted) {
    stage(target, join(context, target));
    cpSync(join(import.meta.dirname, "Dockerfile"), join(context, "Dockerfile"));
    const ref = `${values.prefix}${target}:${values.tag}`;
    builder.build(context, ref, ["--target", target, ...(base === undefined ? [] : ["--build-arg", `BASE=${base}`])]);
    process.stdout.write(`${ref}: ${mib(builder.bytes(ref))}, of them the application ${mib(folderBytes(join(context, target)))}\n`);
    rmSync(join(context, target), { recursive: true });
  }
} finally {
  rmSync(work, { recursive: true, force: true });
}

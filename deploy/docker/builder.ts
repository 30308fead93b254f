import { execFileSync, spawnSync } from "node:child_process";
import { join } from "node:path";

const MiB = 1024 * 1024;
const LOG_CHARS = 4_000;
const tools = ["docker", "buildah", "podman"] as const;
type Tool = (typeof tools)[number];

/** A client without its engine is no use: `info` asks the engine. */
const works = (tool: Tool): boolean => spawnSync(tool, ["info"], { stdio: "ignore" }).status === 0;

/** One of the programs that build images from a Dockerfile. */
export class Builder {
  readonly #tool: Tool;
  private constructor(tool: Tool) {
    this.#tool = tool;
  }
  /** The named one, or the first that works here; throws, naming them, when there is none. */
  static find(name?: string): Builder {
    const found = name === undefined ? tools.find(works) : tools.find((tool) => tool === name);
    if (found === undefined) throw new Error(`an image builder is needed: ${tools.join(", ")}${name === undefined ? "" : `, not ${name}`}`);
    return new Builder(found);
  }
  build(context: string, ref: string, options: readonly string[]): void {
    // Within a container the other kinds of isolation of buildah and podman are refused; the steps of these files need none.
    const verb = { buildah: ["bud", "--isolation", "chroot"], podman: ["build", "--isolation", "chroot"], docker: ["build"] }[this.#tool];
    const run = spawnSync(this.#tool, [...verb, "--file", join(context, "Dockerfile"), "--tag", ref, ...options, context], {
      encoding: "utf8",
      maxBuffer: 64 * MiB,
    });
    if (run.status !== 0)
      throw new Error(`${ref} was not built: ${run.error?.message ?? `${run.stdout}\n${run.stderr}`.slice(-LOG_CHARS)}`);
  }
  bytes(ref: string): number {
    if (this.#tool !== "buildah")
      return Number(execFileSync(this.#tool, ["image", "inspect", "--format", "{{.Size}}", ref], { encoding: "utf8" }));
    const images = JSON.parse(execFileSync("buildah", ["images", "--json", ref], { encoding: "utf8" })) as { readonly size: string }[];
    const [, amount, unit] = /^([\d.]+) (\w+)$/.exec(images[0]?.size ?? "") ?? [];
    return Number(amount) * ({ KB: 1e3, MB: 1e6, GB: 1e9 }[unit ?? ""] ?? 1);
  }
  /** One archive with all of them, for a cluster that takes images from files. */
  save(refs: readonly string[], file: string): void {
    const program = this.#tool === "buildah" ? "podman" : this.#tool;
    const several = program === "podman" ? ["--multi-image-archive"] : [];
    const run = spawnSync(program, ["save", ...several, "--output", file, ...refs], { encoding: "utf8" });
    if (run.status !== 0) throw new Error(`${file} was not written: ${run.error?.message ?? run.stderr.slice(-LOG_CHARS)}`);
  }
}

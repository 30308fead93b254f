import { spawn } from "node:child_process";
import { readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { root } from "../../../deploy/docker/stage.ts";

const PAGE = "docs/kubernetes.md";
const SECTION_TIMEOUT_MS = 400_000;

/** The commands of a page's section, as one script: what the page promises is what is run. */
export function commandsOf(section: string): string[] {
  const text = readFileSync(join(root, PAGE), "utf8");
  const [, rest] = text.split(`\n## ${section}\n`);
  if (rest === undefined) throw new Error(`${PAGE} has no section ${section}`);
  const [body = ""] = rest.split("\n## ");
  const commands = [...body.matchAll(/```console\n([\s\S]*?)```/g)].flatMap(([, block = ""]) =>
    block
      .split(/^\$ /m)
      .slice(1)
      .map((command) => command.trimEnd()),
  );
  if (commands.length === 0) throw new Error(`${PAGE}: ${section} has no commands`);
  return commands;
}

/** Runs commands in one shell, in `folder`, which looks like the sources' own; what they leave in the background ends with it. */
export function runScript(commands: readonly string[], folder: string, environment: NodeJS.ProcessEnv): Promise<string> {
  const script = ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", ...commands].join("\n");
  return new Promise((resolve, reject) => {
    const shell = spawn("bash", ["-c", script], {
      cwd: folder,
      env: environment,
      stdio: ["ignore", "pipe", "pipe"],
      timeout: SECTION_TIMEOUT_MS,
    });
    let text = "";
    const take = (chunk: Buffer): void => void (text += chunk.toString());
    shell.stdout.on("data", take);
    shell.stderr.on("data", take);
    shell.once("error", reject);
    shell.once("close", (code) => {
      if (code === 0) resolve(text);
      else reject(new Error(`the commands ended with ${code}: ${commands.join("; ")}\n${text.slice(-4_000)}`));
    });
  });
}

/** The parts of the sources that the page's commands name, in a folder where they may also write. */
export function likeSources(folder: string): void {
  for (const part of ["deploy", "bin"]) symlinkSync(join(root, part), join(folder, part));
}

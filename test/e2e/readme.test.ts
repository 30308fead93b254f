import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { readFileSync, symlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { ensureGrpcurl, freePorts, tempDir } from "@sluice/test-support";

const root = join(import.meta.dirname, "../..");

interface Step {
  readonly command: string;
  readonly output: string;
}
/** Where `npm start` listens; the server of the test listens elsewhere. */
const DEFAULT_ENDPOINT = "127.0.0.1:7070";

/** The commands of the `console` blocks of a page, with the output that the page shows. */
function stepsOf(page: string): Step[] {
  const steps: Step[] = [];
  for (const [, block] of readFileSync(join(root, page), "utf8").matchAll(/```console\n([\s\S]*?)```/g)) {
    for (const part of (block as string).split(/^\$ /m).slice(1)) {
      const [command, ...output] = part.trimEnd().split("\n");
      steps.push({ command: command as string, output: output.join("\n") });
    }
  }
  return steps;
}

/** Every command of the README, in order, as a newcomer would type them beside `npm start`. */
describe("README", () => {
  let server: ChildProcess;
  let environment: NodeJS.ProcessEnv;
  let grpc = "";
  let folder: Awaited<ReturnType<typeof tempDir>>;

  beforeAll(async () => {
    folder = await tempDir("readme");
    symlinkSync(join(root, "bin"), join(folder.path, "bin"));
    const [base] = await freePorts(4);
    grpc = `127.0.0.1:${base}`;
    const grpcurl = await ensureGrpcurl();
    server = spawn(join(root, "bin/sluice"), ["standalone", "--data", join(folder.path, "data"), "--port-base", String(base)], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    const path = [...(grpcurl === undefined ? [] : [dirname(grpcurl)]), process.env["PATH"]].join(":");
    environment = { ...process.env, PATH: path, SLUICE_ENDPOINT: grpc };
    await new Promise<void>((resolve, reject) => {
      let text = "";
      server.stdout?.on("data", (chunk: Buffer) => {
        text += chunk.toString();
        if (text.includes("Sluice serves")) resolve();
      });
      server.once("exit", (code) => reject(new Error(`the standalone ended with ${code}`)));
    });
  }, 300_000);
  afterAll(async () => {
    server.removeAllListeners("exit");
    const gone = new Promise((resolve) => server.once("exit", resolve));
    server.kill("SIGTERM");
    await gone;
    await folder[Symbol.asyncDispose]();
  }, 30_000);

  const steps = stepsOf("README.md");
  test("the page has commands", () => expect(steps.length).toBeGreaterThan(8));
  test.each(steps.map((s) => [s.command, s.output] as const))(
    "$ %s",
    (command, output) => {
      const run = spawnSync("bash", ["-c", command.replace(DEFAULT_ENDPOINT, grpc)], {
        cwd: folder.path,
        env: environment,
        encoding: "utf8",
        timeout: 60_000,
      });
      expect({ command, status: run.status, error: run.status === 0 ? "" : run.stderr }).toEqual({ command, status: 0, error: "" });
      if (output !== "") expect(run.stdout.trimEnd()).toBe(output);
    },
    90_000,
  );
});

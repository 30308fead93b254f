import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort, tempDir } from "@sluice/test-support";

const SLUICE = fileURLToPath(new URL("../../../bin/sluice", import.meta.url));
const RUN_TIMEOUT_MS = 60_000;

export interface CommandResult {
  /** Exit code; the signal's name when a signal ended it. */
  readonly code: number | string;
  readonly out: string;
  readonly err: string;
}
export interface RunningCommand {
  readonly child: ChildProcess;
  readonly out: () => string;
  readonly err: () => string;
  readonly done: Promise<CommandResult>;
  /** Waits until standard output, or standard error, holds the text. Rejects when the command ends before. */
  until(text: string): Promise<void>;
}

/** What a user's shell would do. The environment has no SLUICE_ name but those given. */
export function startSluice(args: readonly string[], options: { readonly endpoint?: string } = {}): RunningCommand {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("SLUICE_")));
  if (options.endpoint !== undefined) env["SLUICE_ENDPOINT"] = options.endpoint;
  const child = spawn(SLUICE, [...args], { stdio: ["pipe", "pipe", "pipe"], env });
  const text = { out: "", err: "" };
  const waits = new Set<() => void>();
  const collect = (name: "out" | "err", stream: NodeJS.ReadableStream): void => {
    stream.setEncoding("utf8");
    stream.on("data", (data: string) => {
      text[name] += data;
      for (const look of waits) look();
    });
  };
  collect("out", child.stdout);
  collect("err", child.stderr);
  // A command that ends early does not read the rest of its input.
  child.stdin.on("error", () => undefined);
  const done = once(child, "close").then(([code, signal]) => ({ code: (code ?? signal) as number | string, out: text.out, err: text.err }));
  return {
    child,
    out: () => text.out,
    err: () => text.err,
    done,
    until: (wanted) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          if (!text.out.includes(wanted) && !text.err.includes(wanted)) return;
          waits.delete(look);
          resolve();
        };
        waits.add(look);
        look();
        void done.then(({ code }) =>
          reject(new Error(`sluice ${args.join(" ")} ended with ${code}, without ${wanted}:\n${text.out}${text.err}`)),
        );
      }),
  };
}

/** A standalone with all its services, in a folder that goes with it. */
export interface Standalone extends AsyncDisposable {
  readonly endpoint: string;
  [Symbol.asyncDispose](): Promise<void>;
}
export async function startStandalone(name: string): Promise<Standalone> {
  await using cleanUp = new AsyncDisposableStack();
  const { path } = cleanUp.use(await tempDir(name));
  const port = await freePort();
  const server = startSluice(["standalone", "--data", join(path, "data"), "--port-base", String(port)]);
  cleanUp.defer(async () => {
    server.child.kill("SIGKILL");
    await server.done;
  });
  await server.until("Sluice serves");
  const kept = cleanUp.move();
  return { endpoint: `127.0.0.1:${port}`, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

/** Runs a command to its end, with this on standard input. */
export async function sluice(
  args: readonly string[],
  options: { readonly endpoint?: string; readonly input?: string | Uint8Array } = {},
): Promise<CommandResult> {
  const running = startSluice(args, options);
  running.child.stdin?.end(options.input ?? "");
  const timer = setTimeout(() => running.child.kill("SIGKILL"), RUN_TIMEOUT_MS);
  try {
    return await running.done;
  } finally {
    clearTimeout(timer);
  }
}

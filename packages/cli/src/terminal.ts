import { writeSync } from "node:fs";
import type { Readable } from "node:stream";
import { exitCodes } from "./exit.ts";

/** The command's side of the process: data goes to `out`, everything else to `note`. Tests put their own in. */
export interface Terminal {
  /** Standard output. Resolves when more may be written; rejects with EPIPE's quiet exit when the reader has gone. */
  out(data: string | Uint8Array): Promise<void>;
  /** A line on standard error. */
  note(text: string): void;
  readonly input: Readable;
  readonly inputIsTerminal: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborts at the first SIGINT or SIGTERM; the second one ends the process at once, after `lastWord` has been said. */
  interrupts(lastWord?: () => string): AbortSignal;
  flush(): Promise<void>;
}

function writeNow(fd: number, text: string): void {
  try {
    writeSync(fd, `${text}\n`);
  } catch {
    // Full or gone: nobody can be told.
  }
}

/** The real one. A reader that closes the pipe (`| head`) is a normal end: the process exits 0 and says nothing. */
export function processTerminal(): Terminal {
  const { stdout, stderr } = process;
  stdout.on("error", (error: NodeJS.ErrnoException) => {
    process.exit(error.code === "EPIPE" ? exitCodes.ok : exitCodes.failure);
  });
  // With standard error gone there is nobody to tell.
  stderr.on("error", () => undefined);
  let interrupted: AbortController | undefined;
  let lastWord: (() => string) | undefined;
  return {
    out(data) {
      if (stdout.write(data)) return Promise.resolve();
      return new Promise((resolve) => stdout.once("drain", resolve));
    },
    note: (text) => void stderr.write(`${text}\n`),
    get input() {
      return process.stdin;
    },
    get inputIsTerminal() {
      return process.stdin.isTTY;
    },
    env: process.env,
    interrupts(said) {
      lastWord = said ?? lastWord;
      if (interrupted !== undefined) return interrupted.signal;
      const controller = (interrupted = new AbortController());
      const onSignal = (): void => {
        if (controller.signal.aborted) {
          // Written before the exit, also into a pipe.
          if (lastWord !== undefined) writeNow(stderr.fd, lastWord());
          process.exit(exitCodes.interrupted);
        }
        controller.abort();
      };
      process.on("SIGINT", onSignal);
      process.on("SIGTERM", onSignal);
      return controller.signal;
    },
    flush: () => new Promise((resolve) => stdout.write("", () => resolve())),
  };
}

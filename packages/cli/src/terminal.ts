import { writeSync } from "node:fs";
import type { Readable } from "node:stream";
import { CommandFailure, exitCodes } from "./exit.ts";

/** The command's side of the process: data goes to `out`, everything else to `note`. Tests put their own in. */
export interface Terminal {
  /**
   * Standard output. Resolves when the system has taken the data. Rejects with a CommandFailure when it did not; with a quiet one, whose exit
   * code is 0, when the reader has closed the pipe. Whoever gets it closes what is open, and passes it on.
   */
  out(data: string | Uint8Array): Promise<void>;
  /** A line on standard error. */
  note(text: string): void;
  readonly input: Readable;
  readonly inputIsTerminal: boolean;
  readonly outputIsTerminal: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborts at the first SIGINT or SIGTERM; the second one ends the process at once, after `lastWord` has been said. */
  interrupts(lastWord?: () => string): AbortSignal;
  /** Resolves when everything was taken; rejects as `out` does, also for a write that nobody waited for. */
  flush(): Promise<void>;
}

function writeNow(fd: number, text: string): void {
  try {
    writeSync(fd, `${text}\n`);
  } catch {
    // Full or gone: nobody can be told.
  }
}

/** What a failed write to standard output means for the command. */
export function outputFailure(error: unknown): CommandFailure {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === "EPIPE") return new CommandFailure("", exitCodes.ok, { cause: error });
  return new CommandFailure(`standard output: ${message}`, exitCodes.failure, { cause: error });
}

/** The real one. A reader that closes the pipe (`| head`) is a normal end: the command closes in order, exits 0 and says nothing of it. */
export function processTerminal(): Terminal {
  const { stdout, stderr } = process;
  let failure: CommandFailure | undefined;
  const fail = (error: unknown): CommandFailure => (failure ??= outputFailure(error));
  const write = (data: string | Uint8Array): Promise<void> =>
    new Promise((resolve, reject) => {
      if (failure !== undefined) return reject(failure);
      stdout.write(data, (error) => (error === null || error === undefined ? resolve() : reject(fail(error))));
    });
  // Told by the write; without a listener it would end the process in the middle of its work.
  stdout.on("error", fail);
  // With standard error gone there is nobody to tell.
  stderr.on("error", () => undefined);
  let interrupted: AbortController | undefined;
  let lastWord: (() => string) | undefined;
  return {
    out: write,
    note: (text) => void stderr.write(`${text}\n`),
    get input() {
      return process.stdin;
    },
    get inputIsTerminal() {
      return process.stdin.isTTY;
    },
    get outputIsTerminal() {
      return stdout.isTTY;
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
    flush: () => write(""),
  };
}

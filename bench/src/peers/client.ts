import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { findProgram } from "@sluice/test-support";

/** The Java client (`Load.java`): one warm JVM for all runs and both peers. One command at a time. */
export class JavaClient implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  /** `jars`: folder of Kafka's libraries with its tools. */
  constructor(jars: string) {
    const java = findProgram("java", ["/usr/bin"]);
    if (java === undefined) throw new Error("the client needs Java, which is not on this machine");
    const args = ["-Xmx1g", "-cp", `${jars}/*`, join(import.meta.dirname, "Load.java")];
    this.#child = spawn(java, args, { stdio: ["pipe", "pipe", "ignore"] });
    this.#lines = createInterface({ input: this.#child.stdout as NonNullable<ChildProcess["stdout"]> })[Symbol.asyncIterator]();
  }
  get pid(): number {
    return this.#child.pid as number;
  }
  /** Figures of the answer. Throws the reason of a failure. */
  async run(...words: readonly (string | number)[]): Promise<number[]> {
    this.#child.stdin?.write(`${words.join("\t")}\n`);
    for (;;) {
      const next = await this.#lines.next();
      if (next.done === true) throw new Error(`the Java client ended during ${words[0]}`);
      const [state, ...values] = next.value.split("\t");
      if (state === "ok") return values.filter(Boolean).map(Number);
      if (state === "failed") throw new Error(`${words.slice(0, 3).join(" ")}: ${values.join(" ")}`);
    }
  }
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const exited = once(this.#child, "exit");
    this.#child.stdin?.end();
    await exited;
  }
}

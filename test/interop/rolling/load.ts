import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { History, type Read, type Stall } from "../../e2e/support/history.ts";
import { until } from "../../e2e/support/cluster.ts";

/*
 * An application of a Kafka client: an idempotent producer at a fixed rate, records in turn over the partitions, and a group of two members.
 *
 *   PROGRAM ... BOOTSTRAP TOPIC PARTITIONS RECORDS_PER_SECOND [NAME=VALUE ...]
 *
 *   ack PARTITION OFFSET VALUE DUE_MS AT_MS     acknowledged; due = when it should have been sent (open loop); wall clock, ms
 *   read PARTITION OFFSET VALUE AT_MS           delivered to a member
 *   error TEXT                                  the application got an error: a record that failed, a poll that failed, a fatal one
 *   told TEXT                                   librdkafka's error callback, which its manual calls informational unless the error is fatal
 *   group TEXT                                  partitions given to a member or taken from it
 *   produced                                    a line of standard input ended the producer, and everything is flushed
 *
 * The end of the input ends the members, and the program. Where the time goes: SLUICE_TEST_LOGS=FOLDER keeps what each says, and
 * SLUICE_TEST_CLIENT_LOG=DEBUG makes the clients tell more.
 */
export interface LoadOptions {
  readonly name: string;
  readonly command: readonly string[];
  readonly bootstrap: string;
  readonly topic: string;
  readonly partitions: number;
  readonly recordsPerSecond: number;
  /** Of all its clients, NAME=VALUE. */
  readonly settings?: readonly string[];
}
/** What an event cost the application. */
export interface Cost {
  /** Longest time without an acknowledgement of a partition. */
  readonly produce: Stall;
  /** Longest time in which a partition delivered nothing to the group. */
  readonly consume: Stall;
  /** Longest way of a record from when it was due to be sent: to its acknowledgement, and to a member. */
  readonly ackMs: number;
  readonly readMs: number;
}

const ERRORS_CHARS = 20_000;
const FLUSH_MS = 60_000;
const END_MS = 30_000;

export class Load implements AsyncDisposable {
  readonly name: string;
  readonly partitions: number;
  /** Of what was acknowledged. */
  readonly history = new History();
  /** The same shape for what the group got. */
  readonly #delivered = new History();
  readonly #dueMs = new Map<string, number>();
  readonly errors: string[] = [];
  readonly told: string[] = [];
  readonly group: { readonly atMs: number; readonly text: string }[] = [];
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  #log = "";
  #produced = false;

  constructor({ name, command, bootstrap, topic, partitions, recordsPerSecond, settings = [] }: LoadOptions) {
    this.name = name;
    this.partitions = partitions;
    const [program = "", ...words] = command;
    this.#child = spawn(program, [...words, bootstrap, topic, `${partitions}`, `${recordsPerSecond}`, ...settings], {
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.#child.stdin.on("error", () => undefined);
    this.#child.stderr.setEncoding("utf8").on("data", (text: string) => void (this.#log = (this.#log + text).slice(-ERRORS_CHARS)));
    const keep = process.env["SLUICE_TEST_LOGS"];
    if (keep !== undefined) {
      const file = createWriteStream(join(keep, `${topic}.log`));
      this.#child.stderr.pipe(file);
      this.#child.stdout.pipe(file, { end: false });
    }
    createInterface({ input: this.#child.stdout, crlfDelay: Infinity }).on("line", (line) => this.#line(line));
  }
  /** The end of what the client logged. */
  get log(): string {
    return this.#log;
  }
  get reads(): readonly Read[] {
    return this.#delivered.acks;
  }

  #line(line: string): void {
    const space = line.indexOf(" ");
    const [kind, rest] = space < 0 ? [line, ""] : [line.slice(0, space), line.slice(space + 1)];
    const words = rest.split(" ");
    const record = () => ({ partition: Number(words[0]), offset: Number(words[1]), value: words[2] ?? "", atMs: Number(words.at(-1)) });
    if (kind === "ack") {
      const ack = record();
      this.history.acks.push(ack);
      this.#dueMs.set(ack.value, Number(words[3]));
    } else if (kind === "read") this.#delivered.acks.push(record());
    else if (kind === "produced") this.#produced = true;
    else if (kind === "told") this.told.push(rest);
    else if (kind === "group") this.group.push({ atMs: Date.now(), text: rest });
    else this.errors.push(line);
  }

  /** Every partition is acknowledged and delivered, and both members have their share. */
  async flows(timeoutMs: number): Promise<void> {
    await until(`${this.name} produces and reads`, timeoutMs, () => {
      const both = new Set(this.group.filter(({ text }) => / gets [1-9]/.test(text)).map(({ text }) => text.split(" ")[0]));
      const read = new Set(this.#delivered.acks.map(({ partition }) => partition));
      const acked = this.history.partitionsAcknowledged(0);
      if (this.errors.length > 0) throw new Error(this.errors.join("\n"));
      return (
        (both.size === 2 && acked === this.partitions && read.size === this.partitions) ||
        `${acked}, ${read.size} partitions, ${this.group.map(({ text }) => text).join()}`
      );
    });
  }
  /** Everything that was produced is acknowledged and has reached the group. */
  async finish(): Promise<void> {
    this.#child.stdin.write("stop\n");
    await until(`${this.name} has all acknowledgements`, FLUSH_MS, () => this.#produced || this.#log);
    await until(`${this.name} has read everything`, FLUSH_MS, () => {
      const read = new Set(this.#delivered.acks.map(({ value }) => value));
      const missing = this.history.acks.filter(({ value }) => !read.has(value));
      return missing.length === 0 || `${missing.length} missing, first ${missing[0]?.value}`;
    });
    this.#child.stdin.end();
    await this.#end(END_MS);
  }
  /** Values that the group got more than once. */
  twice(): string[] {
    const seen = new Set<string>();
    return this.#delivered.acks.filter(({ value }) => seen.size === seen.add(value).size).map(({ value }) => value);
  }

  cost(fromMs: number, toMs: number): Cost {
    const within = ({ atMs, value }: { atMs: number; value: string }): number =>
      atMs < fromMs || atMs > toMs ? 0 : atMs - (this.#dueMs.get(value) ?? atMs);
    const longest = (history: History): number => history.acks.reduce((max, one) => Math.max(max, within(one)), 0);
    return {
      produce: this.history.longestStall(fromMs, toMs),
      consume: this.#delivered.longestStall(fromMs, toMs),
      ackMs: longest(this.history),
      readMs: longest(this.#delivered),
    };
  }

  async #end(timeoutMs: number): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), timeoutMs);
    await once(this.#child, "exit");
    clearTimeout(timer);
  }
  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.stdin.end();
    this.#child.kill("SIGKILL");
    await this.#end(0);
  }
}

import type { ProducerRecord, Sluice } from "@sluice/client";
import { asSluiceError, codeOf, type ErrorCode } from "@sluice/core/model";
import { systemClock } from "@sluice/runtime/clock";
import { createReadStream } from "node:fs";
import { type ConnectionOptions, endpointsOf, withConnection } from "../connect.ts";
import { type About, CommandFailure, exitCodes, hintOf, messageOf, UsageError } from "../exit.ts";
import { splitLines } from "../lines.ts";
import { plural } from "../output.ts";
import { parseRecordLine } from "../record-line.ts";
import type { Terminal } from "../terminal.ts";
import { watchSilence } from "../silence-watch.ts";

export interface ProduceOptions extends ConnectionOptions {
  readonly file?: string;
  readonly jsonl?: boolean;
  readonly keySeparator?: string;
  readonly header?: readonly (readonly [string, string])[];
  /** Records a second. */
  readonly rate?: number;
  readonly count?: number;
  /** Generated values of this size instead of input. */
  readonly size?: number;
}

/** A record that is to be sent, and where it came from, for messages. */
interface Item {
  readonly record: ProducerRecord;
  readonly from: string;
}

export async function produce(topic: string, options: ProduceOptions, terminal: Terminal): Promise<number> {
  checkOptions(options);
  const giveUp = new AbortController();
  const work = async (sluice: Sluice): Promise<number> => {
    const { partitions, config } = await sluice.admin.describeTopic(topic);
    const tally = new Tally();
    const signal = terminal.interrupts(() => tally.summary());
    const source = options.size === undefined ? inputItems(options, partitions, terminal, signal) : generated(options.size);
    return send({ sluice, topic, config, source, options, terminal, tally, signal, giveUp });
  };
  return withConnection(terminal, options, work, { signal: giveUp.signal });
}

function checkOptions(options: ProduceOptions): void {
  const { jsonl, keySeparator, size, file } = options;
  if (jsonl === true && keySeparator !== undefined)
    throw new UsageError("--jsonl lines carry their keys: --key-separator does not go with it");
  if (size !== undefined && (jsonl === true || file !== undefined || keySeparator !== undefined))
    throw new UsageError("--size makes the values up: it does not go with --file, --jsonl and --key-separator");
  if (keySeparator === "") throw new UsageError("--key-separator is empty");
}

/** After an interrupt, answers are waited for this long. */
const LAST_ANSWERS_MS = 3_000;

/** Nothing was sent: given up, or not in time. */
const NEVER_SENT: ReadonlySet<ErrorCode> = new Set(["CANCELLED", "SHUTTING_DOWN", "TIMED_OUT"]);

/** What was sent and how it went. */
class Tally {
  sent = 0;
  acknowledged = 0;
  firstFailure: { readonly item: Item; readonly error: unknown } | undefined;
  #open = 0;
  #refused = 0;
  #unsent = 0;
  #idle: (() => void) | undefined;
  readonly #startMs = systemClock.monotonicMs();

  get open(): number {
    return this.#open;
  }
  summary(): string {
    const seconds = (systemClock.monotonicMs() - this.#startMs) / 1_000;
    const rate = seconds > 0 ? Math.round(this.acknowledged / seconds) : 0;
    const left = this.sent - this.acknowledged - this.#refused - this.#unsent;
    const refused = this.#refused === 0 ? "" : `; ${this.#refused} refused, not stored`;
    const unsent = this.#unsent === 0 ? "" : `; ${this.#unsent} not sent, not stored`;
    const unknown = left === 0 ? "" : `; ${left} not acknowledged, they may or may not be stored`;
    return `${this.acknowledged} of ${this.sent} records acknowledged in ${seconds.toFixed(2)} s (${rate}/s)${refused}${unsent}${unknown}`;
  }

  track(item: Item, outcome: Promise<unknown>): void {
    this.sent++;
    this.#open++;
    outcome
      .then(
        () => void this.acknowledged++,
        (error: unknown) => {
          this.firstFailure ??= { item, error };
          const code = codeOf(error);
          if (NEVER_SENT.has(code)) this.#unsent++;
          // Every other code says that the record is not stored.
          else if (code !== "OUTCOME_UNKNOWN") this.#refused++;
        },
      )
      .finally(() => {
        if (--this.#open === 0) this.#idle?.();
      });
  }
  settled(): Promise<void> {
    return this.#open === 0 ? Promise.resolve() : new Promise((resolve) => (this.#idle = resolve));
  }
}

interface Sending {
  readonly sluice: Sluice;
  readonly topic: string;
  readonly config: Readonly<Record<string, string>>;
  readonly source: AsyncIterable<Item[]>;
  readonly options: ProduceOptions;
  readonly terminal: Terminal;
  readonly tally: Tally;
  readonly signal: AbortSignal;
  /** Ends all that is pending. */
  readonly giveUp: AbortController;
}
async function send({ sluice, topic, config, source, options, terminal, tally, signal, giveUp }: Sending): Promise<number> {
  const producer = sluice.producer({ topic });
  const pacer = options.rate === undefined ? undefined : new Pacer(options.rate, signal);
  const interrupted = lastAnswers(tally, terminal, signal, giveUp);
  const silence = watchSilence({
    sluice,
    terminal,
    endpoints: endpointsOf(terminal, options),
    progress: () => tally.acknowledged,
    waits: () => tally.open > 0,
    nothing: "nothing was acknowledged",
    writes: true,
  });
  const headers = options.header ?? [];
  const complete = async (): Promise<boolean> => {
    for await (const items of source) {
      for (const item of items) {
        if (tally.sent === options.count) return true;
        if (signal.aborted || tally.firstFailure !== undefined) return false;
        if (pacer !== undefined && !(await pacer.next())) return false;
        const record =
          headers.length === 0 ? item.record : { ...item.record, headers: [...((item.record.headers as []) ?? []), ...headers] };
        let outcome = producer.trySend(record);
        while (outcome === undefined) {
          await Promise.race([producer.ready(), interrupted.given]);
          if (signal.aborted) return false;
          outcome = producer.trySend(record);
        }
        tally.track(item, outcome);
      }
      // Answers are handled between two chunks of input, so that a failure is seen before the next.
      await new Promise((resolve) => systemClock.afterTurn(() => resolve(undefined)));
    }
    return !signal.aborted;
  };
  let inputError: unknown;
  let finished = false;
  try {
    finished = await complete();
  } catch (error) {
    inputError = error;
  }
  // Settled by the answers, or by the end of the connection.
  await tally.settled();
  interrupted.cancel();
  silence.stop();
  await producer.close();
  // What could not be read at all has nothing to be counted.
  if (inputError === undefined || tally.sent > 0) terminal.note(tally.summary());
  if (giveUp.signal.aborted) return exitCodes.interrupted;
  if (tally.firstFailure !== undefined) throw refusal(tally, { topic, endpoint: options.endpoint, config });
  return exitCodeOf(finished, inputError, options);
}

/** What an interrupt does to records that are on their way: they get a little time, and their number is told. */
function lastAnswers(tally: Tally, terminal: Terminal, signal: AbortSignal, giveUp: AbortController) {
  const given = Promise.withResolvers<void>();
  let timer: { cancel(): void } | undefined;
  const onInterrupt = (): void => {
    given.resolve();
    if (tally.open === 0) return;
    terminal.note(
      `interrupted: ${plural(tally.open, "record")} ${tally.open === 1 ? "is" : "are"} not acknowledged yet; waiting ${LAST_ANSWERS_MS / 1_000} s for them, Ctrl-C ends at once`,
    );
    timer = systemClock.setTimer(LAST_ANSWERS_MS, () => giveUp.abort());
  };
  signal.addEventListener("abort", onInterrupt, { once: true });
  if (signal.aborted) onInterrupt();
  return {
    given: given.promise,
    cancel(): void {
      timer?.cancel();
      signal.removeEventListener("abort", onInterrupt);
    },
  };
}

/** What the first record that was not stored is told with, and what helps. */
function refusal(tally: Tally, about: About & { readonly config: Readonly<Record<string, string>> }): CommandFailure {
  const { item, error: cause } = tally.firstFailure as NonNullable<Tally["firstFailure"]>;
  const error = asSluiceError(cause);
  const { code } = error;
  const message = code === "INVALID_TIMESTAMP" ? timestampRefused(item, about.config) : messageOf(error).replace(/\.$/, "");
  const others = tally.sent > 1 ? ", other lines that had been read may be stored" : "";
  return new CommandFailure(
    `${item.from}: ${code}: ${message}; reading stopped there${others}\n  ${hintOf(error, about)}`,
    exitCodes.unacknowledged,
    {
      cause,
    },
  );
}
/** The answer names neither the time nor the limits: the server judges a batch. */
function timestampRefused({ record: { timestampMs } }: Item, config: Readonly<Record<string, string>>): string {
  const limit = (name: string): string => {
    const value = Number(config[name]);
    return value >= Number.MAX_SAFE_INTEGER ? "no limit" : `${value} ms`;
  };
  const given = timestampMs === undefined ? "the time of sending" : `timestamp ${timestampMs}`;
  return `${given} is too far from the broker's clock: the topic takes up to ${limit("message.timestamp.before.max.ms")} before it and ${limit("message.timestamp.after.max.ms")} after it`;
}

function exitCodeOf(finished: boolean, inputError: unknown, options: ProduceOptions): number {
  if (inputError !== undefined) throw inputError as Error;
  // A load without an end is ended by the user: that is its normal end.
  const endless = options.size !== undefined && options.count === undefined;
  return finished || endless ? exitCodes.ok : exitCodes.interrupted;
}

/** Says when the next record is due, from a fixed start: what a slow moment delayed is caught up. */
class Pacer {
  readonly #perMs: number;
  readonly #signal: AbortSignal;
  readonly #startMs = systemClock.monotonicMs();
  #given = 0;

  constructor(perSecond: number, signal: AbortSignal) {
    this.#perMs = perSecond / 1_000;
    this.#signal = signal;
  }
  /** False when interrupted. */
  async next(): Promise<boolean> {
    const dueMs = this.#startMs + this.#given++ / this.#perMs;
    const waitMs = dueMs - systemClock.monotonicMs();
    if (waitMs <= 1) return true;
    return systemClock.sleep(waitMs, this.#signal).then(
      () => true,
      () => false,
    );
  }
}

const GENERATED_CHUNK = 64;
/** Values that tell themselves apart: the number of the record, filled up with dots. */
async function* generated(size: number): AsyncGenerator<Item[]> {
  for (let n = 0; ;) {
    const items: Item[] = [];
    for (let i = 0; i < GENERATED_CHUNK; i++, n++)
      items.push({ record: { value: String(n).padEnd(size, ".").slice(0, size) }, from: `record ${n + 1}` });
    yield items;
  }
}

/** What is wrong with a name given by --file; a disk that fails is not the user's mistake. */
const UNREADABLE: Readonly<Record<string, string>> = {
  ENOENT: "no such file",
  ENOTDIR: "no such file",
  EISDIR: "is a folder",
  EACCES: "may not be read (EACCES)",
  ENAMETOOLONG: "the name is too long",
  ELOOP: "too many symbolic links",
};

async function* inputItems(options: ProduceOptions, partitions: number, terminal: Terminal, signal: AbortSignal): AsyncGenerator<Item[]> {
  const input = options.file === undefined ? terminal.input : createReadStream(options.file);
  // Reading ends at once: a terminal may never send another byte.
  const abort = (): void => void input.destroy();
  signal.addEventListener("abort", abort, { once: true });
  if (options.file === undefined && terminal.inputIsTerminal) terminal.note("Reading records from the terminal, one a line; Ctrl-D ends.");
  const separator = options.keySeparator === undefined ? undefined : Buffer.from(options.keySeparator);
  let number = 0;
  let moved = false;
  try {
    for await (const lines of splitLines(input as AsyncIterable<Uint8Array>)) {
      const items: Item[] = [];
      for (const line of lines) {
        const from = `line ${++number}`;
        if (options.jsonl !== true) items.push({ record: textRecord(line, separator), from });
        else if (!isBlank(line)) {
          let parsed: ReturnType<typeof lineRecord>;
          try {
            parsed = lineRecord(line, from);
          } catch (error) {
            // The good lines before it go first: whoever goes on at the line that is named must lose none.
            yield items;
            throw error;
          }
          const { partition, timestampMs, key, value, headers } = parsed;
          const known = partition !== undefined && partition < partitions;
          if (partition !== undefined && !known && !moved) {
            moved = true;
            terminal.note(`${from}: the topic has no partition ${partition} (it has ${partitions}); such records are placed by their key`);
          }
          items.push({
            record: { key, value, headers, ...(known && { partition }), ...(timestampMs !== undefined && { timestampMs }) },
            from,
          });
        }
      }
      yield items;
    }
  } catch (error) {
    if (signal.aborted) return;
    const why = options.file === undefined ? undefined : UNREADABLE[(error as NodeJS.ErrnoException).code ?? ""];
    if (why !== undefined) throw new UsageError(`--file ${options.file}: ${why}`);
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
    if (options.file !== undefined) input.destroy();
  }
}
function textRecord(line: Uint8Array, separator: Buffer | undefined): ProducerRecord {
  if (separator === undefined) return { value: line };
  const at = Buffer.from(line.buffer, line.byteOffset, line.byteLength).indexOf(separator);
  return at < 0 ? { value: line } : { key: line.subarray(0, at), value: line.subarray(at + separator.length) };
}
// Strict: a broken byte must not become a replacement character in the stored record.
const utf8 = new TextDecoder("utf-8", { fatal: true });
const isBlank = (line: Uint8Array): boolean => line.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d);
function lineRecord(line: Uint8Array, from: string) {
  try {
    let text: string;
    try {
      text = utf8.decode(line);
    } catch {
      throw new UsageError("not UTF-8");
    }
    return parseRecordLine(text);
  } catch (error) {
    throw new CommandFailure(`${from}: ${messageOf(error)}`, exitCodes.unacknowledged);
  }
}

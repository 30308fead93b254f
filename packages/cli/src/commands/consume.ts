import type { RecordBatch, Sluice } from "@sluice/client";
import { systemClock } from "@sluice/runtime/clock";
import { type ConnectionOptions, endpointsOf, withConnection } from "../connect.ts";
import { exitCodes, UsageError } from "../exit.ts";
import { plural } from "../output.ts";
import { clientPosition, type FromPosition, type UntilPosition } from "../position.ts";
import { formatRecordLine } from "../record-line.ts";
import { watchSilence } from "../silence-watch.ts";
import type { Terminal } from "../terminal.ts";

export interface ConsumeOptions extends ConnectionOptions {
  readonly from: FromPosition;
  readonly until?: UntilPosition;
  readonly partition?: number;
  readonly exitOnEnd?: boolean;
  readonly output: "value" | "jsonl";
}

export async function consume(topic: string, options: ConsumeOptions, terminal: Terminal): Promise<number> {
  return withConnection(terminal, options, async (sluice) => {
    const signal = terminal.interrupts();
    const { partitions: count } = await sluice.admin.describeTopic(topic, { signal });
    if (options.partition !== undefined && options.partition >= count)
      throw new UsageError(`--partition ${options.partition}: ${topic} has partitions 0 to ${count - 1}`);
    const partitions = options.partition === undefined ? Array.from({ length: count }, (_, i) => i) : [options.partition];
    const reading: Reading = { sluice, topic, partitions, options, terminal, signal, startMs: systemClock.monotonicMs(), records: 0 };
    const silence = watchSilence({
      sluice,
      terminal,
      endpoints: endpointsOf(terminal, options),
      progress: () => reading.records,
      waits: () => reading.isWriting !== true,
      nothing: "nothing was read",
      writes: false,
      whenFine: () => reading.bounds?.waitsFor ?? (terminal.outputIsTerminal ? "waiting for records; Ctrl-C ends" : undefined),
    });
    try {
      return await read(reading);
    } finally {
      silence.stop();
    }
  });
}

interface Reading {
  readonly sluice: Sluice;
  readonly topic: string;
  readonly partitions: readonly number[];
  readonly options: ConsumeOptions;
  readonly terminal: Terminal;
  readonly signal: AbortSignal;
  readonly startMs: number;
  records: number;
  bounds?: Bounds;
  /** The output has not taken the last ones yet. */
  isWriting?: boolean;
}
async function read(reading: Reading): Promise<number> {
  const { sluice, topic, partitions, options, terminal, signal, startMs } = reading;
  const { until } = options;
  const bounds = (reading.bounds = await Bounds.of(sluice, topic, partitions, until, signal));
  const untilEnd = options.exitOnEnd === true || until?.at === "end" || bounds.withinLog;
  const consumer = sluice.consumer({ topic, partitions, from: clientPosition(options.from), untilEnd, signal });
  let reached = false;
  try {
    await consumer.ready();
    for (const [partition, offset] of consumer.positions()) bounds.passed(partition, offset);
    const watch = bounds.watchClock(sluice, topic, consumer.positions.bind(consumer), () => void consumer.close());
    try {
      if (!bounds.allPassed) {
        for await (const batch of consumer.batches()) {
          reading.isWriting = true;
          reading.records += await write(batch, bounds, options.output, terminal);
          reading.isWriting = false;
          bounds.passed(batch.partition, batch.nextOffset);
          if (bounds.allPassed) break;
        }
      }
    } finally {
      watch.cancel();
    }
    reached = true;
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    await consumer.close();
  }
  const seconds = (systemClock.monotonicMs() - startMs) / 1_000;
  terminal.note(`${plural(reading.records, "record")} in ${seconds.toFixed(2)} s`);
  // Without an end of its own, a reader is ended by its user.
  return reached || (until === undefined && !untilEnd) ? exitCodes.ok : exitCodes.interrupted;
}

const NEWLINE = Buffer.from("\n");
const EMPTY = new Uint8Array(0);
/** Writes what lies before the bound; resolves with the number of records when the output takes more. */
async function write(batch: RecordBatch, bounds: Bounds, output: "value" | "jsonl", terminal: Terminal): Promise<number> {
  const parts: Uint8Array[] = [];
  let text = "";
  let records = 0;
  for (const record of batch.records) {
    if (!bounds.admits(record.partition, record.offset, record.timestampMs)) break;
    records++;
    if (output === "jsonl") text += formatRecordLine(record);
    else parts.push(record.value ?? EMPTY, NEWLINE);
  }
  if (records > 0) await terminal.out(output === "jsonl" ? text : Buffer.concat(parts));
  return records;
}

/** Partitions that a message names. */
const NAMED_MAX = 10;
/** Where each partition ends for this run: before an offset, or before the first record of a time. */
class Bounds {
  readonly #ends: Map<number, number>;
  readonly #open: Set<number>;
  readonly #partitions: readonly number[];
  readonly #untilMs: number | undefined;
  readonly #bounded: boolean;
  /** No bound lies after the end of its partition: reading to the end passes all of them, even where records are missing. */
  readonly withinLog: boolean;

  private constructor(partitions: readonly number[], ends: Map<number, number>, untilMs: number | undefined, withinLog: boolean) {
    this.#partitions = partitions;
    this.#ends = ends;
    this.#untilMs = untilMs;
    this.#bounded = ends.size > 0 || untilMs !== undefined;
    this.#open = new Set(partitions);
    this.withinLog = withinLog;
  }
  static async of(
    sluice: Sluice,
    topic: string,
    partitions: readonly number[],
    until: UntilPosition | undefined,
    signal: AbortSignal,
  ): Promise<Bounds> {
    if (until === undefined || until.at === "end") return new Bounds(partitions, new Map(), undefined, false);
    const latest = await sluice.admin.listOffsets(topic, "latest", { partitions, signal });
    if (until.at === "offset") {
      const within = latest.every(({ offset }) => until.offset <= offset);
      return new Bounds(partitions, new Map(partitions.map((partition) => [partition, until.offset])), undefined, within);
    }
    if (until.timestampMs > systemClock.wallMs()) return new Bounds(partitions, new Map(), until.timestampMs, false);
    return new Bounds(partitions, await endsByTime(sluice, topic, partitions, until.timestampMs), undefined, true);
  }
  get allPassed(): boolean {
    return this.#bounded && this.#open.size === 0;
  }
  /** What a reader is told that waits for its bound; undefined without one. */
  get waitsFor(): string | undefined {
    if (!this.#bounded || this.#open.size === 0) return undefined;
    const open = [...this.#open].toSorted((a, b) => a - b);
    const named = open.slice(0, NAMED_MAX).join(", ");
    const more = open.length > NAMED_MAX ? ` and ${open.length - NAMED_MAX} more` : "";
    return `waiting for ${open.length === 1 ? "partition" : "partitions"} ${named}${more} to reach --until; Ctrl-C ends`;
  }
  admits(partition: number, offset: number, timestampMs: number): boolean {
    if (!this.#bounded) return true;
    if (!this.#open.has(partition)) return false;
    if (offset < (this.#ends.get(partition) ?? Number.POSITIVE_INFINITY) && timestampMs < (this.#untilMs ?? Number.POSITIVE_INFINITY))
      return true;
    this.#open.delete(partition);
    return false;
  }
  passed(partition: number, nextOffset: number): void {
    if (nextOffset >= (this.#ends.get(partition) ?? Number.POSITIVE_INFINITY)) this.#open.delete(partition);
  }
  /** A time that lies ahead: once it has come, the partitions end where they then do. */
  watchClock(sluice: Sluice, topic: string, positions: () => ReadonlyMap<number, number>, done: () => void): { cancel(): void } {
    const untilMs = this.#untilMs;
    if (untilMs === undefined) return { cancel: () => undefined };
    const stop = new AbortController();
    const wait = async (): Promise<void> => {
      // In steps: a timer takes no more than 24 days, and the wall clock may be set meanwhile.
      while (systemClock.wallMs() < untilMs) await systemClock.sleep(Math.min(untilMs - systemClock.wallMs(), 60_000), stop.signal);
      for (const [partition, end] of await endsByTime(sluice, topic, this.#partitions, untilMs)) this.#ends.set(partition, end);
      for (const [partition, offset] of positions()) this.passed(partition, offset);
      if (this.allPassed) done();
    };
    // A failure here shows in the loop that reads, which uses the same connection.
    wait().catch(() => undefined);
    return { cancel: () => stop.abort() };
  }
}
/** First record at or after the time, or the end where there is none. */
async function endsByTime(sluice: Sluice, topic: string, partitions: readonly number[], timestampMs: number): Promise<Map<number, number>> {
  const ends = new Map((await sluice.admin.listOffsets(topic, "latest", { partitions })).map((p) => [p.partition, p.offset]));
  for (const { partition, offset } of await sluice.admin.listOffsets(topic, { timestampMs }, { partitions }))
    if (offset >= 0) ends.set(partition, offset);
  return ends;
}

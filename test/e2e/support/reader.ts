import { setTimeout as sleep } from "node:timers/promises";
import { codeOf, connect, type Consumer, type Position, type Sluice } from "@sluice/client";
import type { Read } from "./history.ts";
import { checkRecord } from "./record.ts";

const NEW_CLIENT_MS = 20_000;

/** Reads a topic from its start to its end, as it is now, with a client of its own. Throws when a record is not as it was sent. */
export async function readAll(endpoint: string, topic: string, options: { readonly timeoutMs?: number } = {}): Promise<Read[]> {
  await using client = await connect({ endpoints: [endpoint], connectTimeoutMs: NEW_CLIENT_MS });
  const reads: Read[] = [];
  const consumer = client.consumer({
    topic,
    from: "earliest",
    untilEnd: true,
    signal: AbortSignal.timeout(options.timeoutMs ?? 90_000),
  });
  try {
    await collect(consumer, reads);
  } catch (error) {
    throw new Error(`reading ${topic} through ${endpoint} ended with ${codeOf(error)} after ${reads.length} records: ${String(error)}`, {
      cause: error,
    });
  }
  return reads;
}
async function collect(consumer: Consumer, reads: Read[]): Promise<void> {
  for await (const batch of consumer.batches())
    for (const record of batch.records) reads.push({ partition: record.partition, offset: record.offset, value: checkRecord(record) });
}

/** What a reader must never be given: offsets that do not grow by one, from the first on. */
export function gaps(reads: readonly Read[]): string[] {
  const next = new Map<number, number>();
  const findings: string[] = [];
  for (const { partition, offset, value } of reads) {
    const expected = next.get(partition);
    if (expected !== undefined && offset !== expected) findings.push(`${partition}@${offset} (${value}) where ${expected} comes next`);
    next.set(partition, offset + 1);
  }
  return findings.slice(0, 10);
}

/** A consumer that follows the end of a topic while others write. */
export class TailReader {
  readonly reads: Read[] = [];
  readonly #client: Sluice;
  readonly #ended: Promise<void>;
  #failure: unknown;
  #closing = false;

  private constructor(client: Sluice, consumer: Consumer) {
    this.#client = client;
    this.#ended = collect(consumer, this.reads).catch((error: unknown) => {
      if (!this.#closing) this.#failure = error;
    });
  }
  /** Resolves when the starting positions are fixed: what is written after that is read. */
  static async start(endpoints: readonly string[], topic: string, from: Position = "latest"): Promise<TailReader> {
    const client = await connect({ endpoints });
    const consumer = client.consumer({ topic, from });
    const reader = new TailReader(client, consumer);
    await consumer.ready();
    return reader;
  }
  /** Waits until it has seen so many records. */
  async until(records: number, timeoutMs: number): Promise<void> {
    for (const endMs = performance.now() + timeoutMs; this.reads.length < records; await sleep(20)) {
      this.#throwFailure();
      if (performance.now() > endMs)
        throw new Error(`the tail reader has ${this.reads.length} of ${records} records after ${timeoutMs} ms`);
    }
  }
  async close(): Promise<void> {
    this.#closing = true;
    await this.#client.close();
    await this.#ended;
    this.#throwFailure();
  }
  #throwFailure(): void {
    if (this.#failure === undefined) return;
    throw new Error(`the tail reader failed with ${codeOf(this.#failure)} after ${this.reads.length} records`, { cause: this.#failure });
  }
}

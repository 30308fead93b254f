import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { codeOf, connect, type Producer, type ProducerOptions, type Sluice } from "@sluice/client";
import { History } from "./history.ts";
import { makeRecord, recordId } from "./record.ts";

export interface WorkloadOptions {
  readonly endpoints: readonly string[];
  readonly topic: string;
  readonly partitions: number;
  readonly producers: number;
  /** First part of the producers' names: values of several workloads of one topic must differ. */
  readonly name?: string;
  readonly recordBytes?: number;
  /**
   * Open loop: so many records a second for each partition, whatever the answers do; every partition has one writer.
   * Absent: as fast as the producers take them, every producer writing to every partition.
   */
  readonly ratePerPartition?: number;
  /** Ends by itself after so many of each producer to each of its partitions. */
  readonly recordsPerPartition?: number;
  readonly producer?: ProducerOptions;
}
export interface Workload {
  readonly history: History;
  /** Records given to producers so far. */
  readonly sent: number;
  /** The endpoint that most producers use now. */
  readonly endpoint: string;
  /** Resolves when all that was to be sent has been answered; for workloads with an end. */
  finished(): Promise<void>;
  /** Sends no more; resolves when everything has been answered, well or badly, and the clients are closed. */
  stop(): Promise<void>;
}

/** Between two bursts of the open loop. */
const TICK_MS = 20;
/** Records between two looks at the producer's buffer. */
const BURST = 64;

/** Idempotent producers, each with a connection of its own, that note every acknowledgement with its time and every failure. */
export async function startWorkload(options: WorkloadOptions): Promise<Workload> {
  const workload = new RunningWorkload(options);
  await workload.open();
  return workload;
}

class RunningWorkload implements Workload {
  readonly history = new History();
  sent = 0;
  readonly #options: WorkloadOptions;
  readonly #clients: Sluice[] = [];
  readonly #producers: Producer[] = [];
  #running = true;
  #loops: Promise<unknown> = Promise.resolve();
  #stopped: Promise<void> | undefined;

  constructor(options: WorkloadOptions) {
    this.#options = options;
  }
  get endpoint(): string {
    const counts = new Map<string, number>();
    for (const { endpoint } of this.#clients) counts.set(endpoint, (counts.get(endpoint) ?? 0) + 1);
    return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0] ?? "";
  }

  async open(): Promise<void> {
    const { endpoints, topic, producers, producer, ratePerPartition } = this.#options;
    for (let i = 0; i < producers; i++) {
      const client = await connect({ endpoints });
      this.#clients.push(client);
      this.#producers.push(client.producer({ topic, ...producer }));
    }
    const loops = this.#producers.map((one, i) =>
      ratePerPartition === undefined ? this.#fast(one, i) : this.#openLoop(one, i, ratePerPartition),
    );
    this.#loops = Promise.all(loops);
    // Looked at by `finished` and `stop`.
    this.#loops.catch(() => undefined);
  }
  async finished(): Promise<void> {
    await this.#loops;
    await Promise.all(this.#producers.map((producer) => producer.flush()));
  }
  stop(): Promise<void> {
    this.#stopped ??= this.#end();
    return this.#stopped;
  }
  async #end(): Promise<void> {
    this.#running = false;
    try {
      await this.finished();
    } finally {
      await Promise.all(this.#clients.map((client) => client.close()));
    }
  }

  async #fast(producer: Producer, index: number): Promise<void> {
    const { partitions, recordsPerPartition = Infinity } = this.#options;
    for (let number = 1; this.#running && number <= recordsPerPartition; number++) {
      for (let partition = 0; partition < partitions; partition++) {
        this.#send(producer, index, partition, number);
        if (this.sent % BURST === 0) {
          await producer.ready();
          await setImmediate();
        }
      }
    }
  }
  async #openLoop(producer: Producer, index: number, rate: number): Promise<void> {
    const { partitions, producers, recordsPerPartition = Infinity } = this.#options;
    const mine = Array.from({ length: partitions }, (_, p) => p).filter((p) => p % producers === index);
    const startMs = performance.now();
    for (let number = 1; this.#running && number <= recordsPerPartition;) {
      const due = Math.min(recordsPerPartition, Math.floor(((performance.now() - startMs) / 1_000) * rate));
      for (; number <= due; number++) for (const partition of mine) this.#send(producer, index, partition, number);
      await sleep(TICK_MS);
    }
  }
  #send(producer: Producer, index: number, partition: number, number: number): void {
    const { name = "w", recordBytes = 100 } = this.#options;
    const who = `${name}${index}`;
    const value = recordId(who, partition, number);
    this.sent++;
    producer.send(makeRecord(who, partition, number, recordBytes)).then(
      (stored) => void this.history.acks.push({ partition: stored.partition, offset: stored.offset, value, atMs: performance.now() }),
      (error: unknown) => void this.history.failures.push({ value, code: codeOf(error), atMs: performance.now() }),
    );
  }
}

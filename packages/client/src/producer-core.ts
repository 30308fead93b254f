import { setMaxListeners } from "node:events";
import type { Codec } from "@sluice/core/log";
import { asSluiceError, SluiceError } from "@sluice/core/model";
import type { Timer } from "@sluice/runtime";
import type { Call } from "./admin.ts";
import type { Connection } from "./connection.ts";
import type { ProduceAnswer } from "./messages.ts";
import type { BatchOwner, OutBatch, ProducerIdentity, RecordSink } from "./out-batch.ts";
import { PartitionQueue } from "./partition-queue.ts";
import { ProduceStream, type ProduceStreamOwner } from "./produce-stream.ts";
import type { ProducerQueue, QueueContext } from "./queue-context.ts";
import type { RecordBuffer } from "./record-buffer.ts";
import type { PreparedRecord } from "./records.ts";
import { clientTimers } from "./timing.ts";
import { TopicRoute } from "./topic-route.ts";
import type { Partitioner } from "./types.ts";

export interface ProducerSettings {
  readonly idempotent: boolean;
  readonly codec: Codec;
  readonly lingerMs: number;
  readonly batchBytes: number;
  readonly bufferBytes: number;
  readonly maxInFlight: number;
  readonly deliveryTimeoutMs: number;
  readonly partitioner: Partitioner | undefined;
}
/** A batch that still has to find its partition. */
export interface PendingBatch {
  readonly topic: string;
  readonly partition: number | undefined;
  readonly key: Uint8Array | null;
  readonly bytes: number;
  readonly deadlineMs: number;
  make(partition: number): OutBatch;
  fail(error: SluiceError): void;
}
type Pending =
  | { readonly batch: PendingBatch; readonly bytes: number; readonly deadlineMs: number }
  | {
      readonly record: PreparedRecord;
      readonly sink: RecordSink;
      readonly index: number;
      readonly bytes: number;
      readonly deadlineMs: number;
    };

/** What is known of a topic: nothing yet (what is admitted waits here), or its partitions. */
interface TopicEntry {
  route: TopicRoute | undefined;
  loadedAtMs: number;
  pending: Pending[];
  loading: Promise<void> | undefined;
  /** Why it is not known yet. */
  missing: SluiceError | undefined;
}

/**
 * The inside of a producer: topics, their queues, the stream, the producer id, and deadlines.
 *
 *   admitted record ► topic known? ─no─► pending until DescribeTopic answers
 *                          └─yes─► TopicRoute ► PartitionQueue ► ProduceStream
 */
export class ProducerCore implements QueueContext, ProduceStreamOwner {
  readonly clock;
  readonly random;
  readonly codec: Codec;
  readonly lingerMs: number;
  readonly maxInFlight: number;
  readonly idempotent: boolean;
  readonly stream: ProduceStream;
  readonly #call: Call;
  readonly #settings: ProducerSettings;
  readonly #buffer: RecordBuffer;
  readonly #onNewIdentity: (topic: string, partition: number, error: Error) => void;
  readonly #topics = new Map<string, TopicEntry>();
  /** All queues that have something, also those of topics that were looked up anew since. */
  readonly #busy = new Set<ProducerQueue>();
  readonly #later = new Set<ProducerQueue>();
  readonly #closing = new AbortController();
  #identity: ProducerIdentity | undefined;
  #identityAsked = false;
  #identityMissing: SluiceError | undefined;
  #turnAsked = false;
  #flushes = 0;
  #deadlines: Timer | undefined;
  #over: SluiceError | undefined;

  constructor(
    connection: Connection,
    call: Call,
    settings: ProducerSettings,
    buffer: RecordBuffer,
    onNewIdentity: (topic: string, partition: number, error: Error) => void,
  ) {
    this.clock = connection.clock;
    this.random = connection.random;
    this.codec = settings.codec;
    this.lingerMs = settings.lingerMs;
    this.maxInFlight = settings.maxInFlight;
    this.idempotent = settings.idempotent;
    this.#call = call;
    this.#settings = settings;
    this.#buffer = buffer;
    this.#onNewIdentity = onNewIdentity;
    setMaxListeners(0, this.#closing.signal);
    this.stream = new ProduceStream(connection, this);
  }
  get flushing(): boolean {
    return this.#flushes > 0;
  }
  get identityMissing(): SluiceError | undefined {
    return this.#identityMissing;
  }
  get hasWork(): boolean {
    for (const queue of this.#busy) if (!queue.isEmpty) return true;
    return false;
  }

  /** The record's bytes have been counted in the buffer. */
  admitRecord(record: PreparedRecord, deadlineMs: number, sink: RecordSink, index: number): void {
    const entry = this.#topic(record.topic);
    if (entry.route === undefined) entry.pending.push({ record, sink, index, bytes: record.bytes, deadlineMs });
    else this.#routeRecord(entry.route, record, deadlineMs, sink, index);
    this.watchDeadlines();
  }
  admitBatch(batch: PendingBatch): void {
    const entry = this.#topic(batch.topic);
    if (entry.route === undefined) entry.pending.push({ batch, bytes: batch.bytes, deadlineMs: batch.deadlineMs });
    else this.#routeBatch(entry.route, batch);
    this.watchDeadlines();
  }
  async flush(): Promise<void> {
    this.#flushes++;
    try {
      await this.#buffer.passed();
      for (const entry of this.#topics.values()) await entry.loading;
      await Promise.all([...this.#busy].map((queue) => queue.settled()));
    } finally {
      this.#flushes--;
    }
  }
  /** Everything fails with `error`, what was sent and not answered with OUTCOME_UNKNOWN; later calls too. */
  abort(error: SluiceError): void {
    this.#over ??= error;
    this.#closing.abort(error);
    this.#deadlines?.cancel();
    this.#buffer.abort(error);
    for (const entry of this.#topics.values()) for (const p of entry.pending.splice(0)) this.#failPending(p, error);
    for (const queue of this.#busy) queue.abort(error);
    this.#busy.clear();
    this.#later.clear();
    this.stream.close();
  }
  /** Keeps looking at deadlines while anything is here. */
  watchDeadlines(): void {
    if (this.#over !== undefined) return;
    this.#deadlines ??= this.clock.setTimer(clientTimers.deadlineCheckMs, () => {
      this.#deadlines = undefined;
      this.#expire();
      if (this.#buffer.bytes > 0 || this.#buffer.waiting > 0) this.watchDeadlines();
    });
  }

  // For the stream.
  answered(batch: OutBatch, answer: ProduceAnswer): void {
    batch.owner?.answered(batch, answer);
  }
  lost(batches: readonly OutBatch[], error: SluiceError, sent: boolean): void {
    const owners = new Set<BatchOwner>();
    for (const batch of batches) {
      if (batch.owner === undefined) continue;
      batch.owner.lost(batch, error, sent);
      owners.add(batch.owner);
    }
    for (const owner of owners) owner.lostAll();
  }
  writable(): void {
    for (const queue of this.#busy) {
      queue.pump();
      if (queue.isEmpty) this.#busy.delete(queue);
    }
  }

  // For the queues.
  pumpLater(queue: ProducerQueue): void {
    this.#later.add(queue);
    this.#busy.add(queue);
    if (this.#turnAsked) return;
    this.#turnAsked = true;
    this.clock.afterTurn(() => {
      this.#turnAsked = false;
      const queues = [...this.#later];
      this.#later.clear();
      for (const q of queues) q.pump();
    });
  }
  identity(): ProducerIdentity | undefined {
    if (this.#identity === undefined && !this.#identityAsked) {
      this.#identityAsked = true;
      void this.#initProducer().then(
        (identity) => {
          this.#identity = identity;
          this.writable();
        },
        (error: unknown) => this.#identityFailed(asSluiceError(error)),
      );
    }
    return this.#identity;
  }
  renewIdentity(queue: ProducerQueue, cause: SluiceError): Promise<ProducerIdentity> {
    this.#onNewIdentity(queue.topic, queue.partition, cause);
    return this.#initProducer();
  }
  released(batch: OutBatch): void {
    this.#buffer.give(batch.bufferBytes);
  }
  topicUnknown(topic: string): boolean {
    const entry = this.#topics.get(topic);
    if (entry?.route === undefined) return false;
    if (this.clock.monotonicMs() - entry.loadedAtMs < clientTimers.newTopicMs) return true;
    this.#topics.delete(topic);
    return false;
  }

  get #attemptMs(): number {
    return Math.min(this.#settings.deliveryTimeoutMs / 2, clientTimers.attemptMs);
  }
  #topic(name: string): TopicEntry {
    let entry = this.#topics.get(name);
    if (entry === undefined) {
      entry = { route: undefined, loadedAtMs: 0, pending: [], loading: undefined, missing: undefined };
      this.#topics.set(name, entry);
      entry.loading = this.#load(name, entry);
    }
    return entry;
  }
  /** Never rejects: what waits for the topic is told. */
  async #load(name: string, entry: TopicEntry): Promise<void> {
    const untilMs = this.clock.monotonicMs() + clientTimers.newTopicMs;
    const options = { timeoutMs: this.#attemptMs, signal: this.#closing.signal };
    for (;;) {
      try {
        const { topic } = await this.#call((link, o) => link.admin.describeTopic({ name }, o), options);
        const count = topic?.partitions ?? 0;
        if (count < 1) throw new SluiceError("UNKNOWN_TOPIC", `${name} has no partitions`);
        const limit = Number(topic?.config["max.message.bytes"] ?? Number.NaN);
        const batchBytes = limit > 0 ? Math.min(this.#settings.batchBytes, limit) : this.#settings.batchBytes;
        const queues = Array.from({ length: count }, (_, partition) => new PartitionQueue(name, partition, batchBytes, this));
        const { random } = this;
        this.#loaded(entry, new TopicRoute(name, queues, { batchBytes, random, partitioner: this.#settings.partitioner }));
        return;
      } catch (thrown) {
        const error = asSluiceError(thrown);
        entry.missing = error;
        const isNew = error.code === "UNKNOWN_TOPIC" && this.clock.monotonicMs() < untilMs;
        const waiting = entry.pending.length > 0 && error.retriable;
        if (this.#over === undefined && (isNew || waiting)) {
          await this.clock.sleep(clientTimers.retryMaxMs / 5);
          continue;
        }
        if (this.#topics.get(name) === entry) this.#topics.delete(name);
        for (const p of entry.pending.splice(0)) this.#failPending(p, error);
        return;
      }
    }
  }
  #loaded(entry: TopicEntry, route: TopicRoute): void {
    entry.loadedAtMs = this.clock.monotonicMs();
    entry.route = route;
    for (const p of entry.pending.splice(0)) {
      if ("batch" in p) this.#routeBatch(route, p.batch);
      else this.#routeRecord(route, p.record, p.deadlineMs, p.sink, p.index);
    }
  }
  #routeRecord(route: TopicRoute, record: PreparedRecord, deadlineMs: number, sink: RecordSink, index: number): void {
    try {
      route.queueFor(record.partition, record.key, record.bytes).append(record, deadlineMs, sink, index);
    } catch (error) {
      sink.failed(index, asSluiceError(error));
      this.#buffer.give(record.bytes);
    }
  }
  #routeBatch(route: TopicRoute, batch: PendingBatch): void {
    try {
      const queue = route.queueFor(batch.partition, batch.key, batch.bytes);
      queue.add(batch.make(queue.partition));
    } catch (error) {
      batch.fail(asSluiceError(error));
      this.#buffer.give(batch.bytes);
    }
  }
  #failPending(pending: Pending, error: SluiceError): void {
    if ("batch" in pending) pending.batch.fail(error);
    else pending.sink.failed(pending.index, error);
    this.#buffer.give(pending.bytes);
  }
  /** Tries for as long as the producer lives; rejects with what no retry can help. */
  async #initProducer(): Promise<ProducerIdentity> {
    const options = { timeoutMs: this.#attemptMs, signal: this.#closing.signal };
    for (;;) {
      try {
        const { producerId, producerEpoch } = await this.#call((link, o) => link.produce.initProducer({}, o), options);
        this.#identityMissing = undefined;
        return { producerId: Number(producerId), producerEpoch };
      } catch (thrown) {
        const error = asSluiceError(thrown);
        if (this.#over !== undefined || !error.retriable) throw error;
        this.#identityMissing = error;
      }
    }
  }
  #identityFailed(error: SluiceError): void {
    this.#identityAsked = false;
    for (const queue of this.#busy) queue.abort(error);
    this.#busy.clear();
  }
  #expire(): void {
    const nowMs = this.clock.monotonicMs();
    this.#buffer.expire(nowMs);
    for (const entry of this.#topics.values()) {
      if (entry.pending.length === 0 || (entry.pending[0] as Pending).deadlineMs > nowMs) continue;
      const late = entry.pending.filter((p) => p.deadlineMs <= nowMs);
      entry.pending = entry.pending.filter((p) => p.deadlineMs > nowMs);
      const { missing: cause } = entry;
      const why = cause === undefined ? "" : `: ${cause.code}: ${cause.message}`;
      const error = new SluiceError("TIMED_OUT", `the topic was not found out in time, so nothing was sent${why}`, {
        cause,
      });
      for (const p of late) this.#failPending(p, error);
    }
    let abandon = false;
    for (const queue of this.#busy) {
      if (queue.expire(nowMs)) abandon = true;
      if (queue.isEmpty) this.#busy.delete(queue);
    }
    if (abandon) this.stream.abandon(new SluiceError("OUTCOME_UNKNOWN", "no answer within deliveryTimeoutMs"));
  }
}

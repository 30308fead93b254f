import { errorCatalogue, errorCodeOf, errorNumber, SluiceError, type TopicRecord } from "@sluice/core/model";
import type { ProduceCall, ProduceOutcome, ProduceRouter } from "@sluice/partition-client";
import type { RecordSet } from "@sluice/proto/v1/records";
import { spanAttributes, type Clock, type Span, type Tracer } from "@sluice/runtime";
import type { BatchEncoder, CheckedBatch } from "./batch-encoder.ts";
import { proxyLimits } from "./limits.ts";
import type { ProxyMetrics } from "./metrics.ts";
import { partitionOf, refuseReserved } from "./topics.ts";

/** What a produce request holds, however it came. */
export interface ProduceData {
  readonly partition: number;
  readonly batch: Uint8Array | undefined;
  readonly records: RecordSet | undefined;
  /** -1 = none. */
  readonly expectedBaseOffset: number;
  readonly fenceToken: number;
  /** Trace parent of a request that is being recorded. */
  readonly trace?: Uint8Array | undefined;
  /** See `ProduceCall`. */
  readonly vouches?: (() => boolean) | undefined;
}
export type ProduceDone = (partition: number, outcome: ProduceOutcome) => void;
export interface ProducePathOptions {
  readonly clock: Clock;
  readonly router: Pick<ProduceRouter, "produce" | "heldBytes">;
  readonly encoder: BatchEncoder;
  readonly metrics: ProxyMetrics;
  readonly heldBytesMax: number;
  readonly tracer?: Tracer | undefined;
}

/** From a checked request to the owner and back. Streams that should not read on wait here until others' batches are answered. */
export class ProducePath {
  readonly #options: ProducePathOptions;
  readonly #waiting = new Set<() => void>();
  readonly #waitingForRouter = new Set<() => void>();
  #waitingBytes = 0;

  constructor(options: ProducePathOptions) {
    this.#options = options;
  }
  /** The router and the requests that wait for it hold so much that streams should stop reading. */
  get full(): boolean {
    return this.#isOver(this.#options.router.heldBytes + this.#waitingBytes);
  }
  #isOver(bytes: number): boolean {
    return bytes >= this.#options.heldBytesMax * proxyLimits.heldPauseShare;
  }
  /** Bytes of requests that wait for a look-up or for room in the router, which does not know of them yet. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }
  /** A request of this size waits until the promise settles. */
  waits(bytes: number, until: Promise<unknown>): void {
    this.#waitingBytes += bytes;
    const over = (): void => {
      this.#waitingBytes -= bytes;
      this.#room();
    };
    until.then(over, over);
  }
  /** Calls `fn` once there is room again. */
  onRoom(fn: () => void): void {
    this.#waiting.add(fn);
  }
  offRoom(fn: () => void): void {
    this.#waiting.delete(fn);
  }
  /** The same for who waits for room in the router itself, whatever else waits. */
  onRouterRoom(fn: () => void): void {
    this.#waitingForRouter.add(fn);
  }
  offRouterRoom(fn: () => void): void {
    this.#waitingForRouter.delete(fn);
  }

  /** The router would take a batch of this size now. */
  hasRoomFor(bytes: number): boolean {
    const { router, heldBytesMax } = this.#options;
    return router.heldBytes === 0 || router.heldBytes + bytes <= heldBytesMax;
  }

  /**
   * Throws what is wrong with the request, before anything was sent; else calls `done` once, perhaps before this returns. Returns the bytes
   * of the batch.
   */
  produce(topic: TopicRecord, data: ProduceData, deadlineMs: number, done: ProduceDone): number {
    const checked = this.check(topic, data);
    this.send(topic, checked, data, deadlineMs, done);
    return checked.batch.length;
  }
  /** The first half of `produce`: throws what is wrong with the request. */
  check(topic: TopicRecord, data: ProduceData): CheckedBatch {
    const { encoder } = this.#options;
    refuseReserved(topic.name);
    const { batch, records } = data;
    if (batch === undefined && records === undefined) throw new SluiceError("INVALID_ARGUMENT", "there is neither a batch nor records");
    // -1 = the proxy chooses; every other number must name a partition.
    if (data.partition !== -1) partitionOf(topic, data.partition);
    return batch === undefined ? encoder.encode(topic, data.partition, records as RecordSet) : encoder.check(topic, data.partition, batch);
  }
  /** The second half. */
  send(
    topic: TopicRecord,
    checked: CheckedBatch,
    { expectedBaseOffset, fenceToken, trace, vouches }: Pick<ProduceData, "expectedBaseOffset" | "fenceToken" | "trace" | "vouches">,
    deadlineMs: number,
    done: ProduceDone,
  ): void {
    const { clock, router, metrics, tracer } = this.#options;
    const startedMs = clock.monotonicMs();
    const bytes = checked.batch.length;
    const span =
      tracer !== undefined && (trace !== undefined || tracer.beginsHere())
        ? beginProduce(tracer, topic.name, checked.partition, bytes, trace)
        : undefined;
    const call: ProduceCall = {
      partition: { topicId: topic.topicId, partition: checked.partition },
      batch: checked.batch,
      idempotent: checked.idempotent,
      expectedBaseOffset,
      fenceToken,
      vouches,
      deadlineMs,
      trace: span?.context ?? trace,
      done: (outcome) => {
        span?.end(outcome.code === 0 ? undefined : errorCodeOf(outcome.code));
        if (outcome.code === 0) {
          metrics.produceBytes.inc(bytes);
          metrics.produceSeconds.observe((clock.monotonicMs() - startedMs) / 1000);
        } else metrics.produceFailures.labels(errorCodeOf(outcome.code)).inc();
        done(checked.partition, outcome);
        this.#room();
      },
    };
    router.produce(call);
  }

  #room(): void {
    if (!this.#isOver(this.#options.router.heldBytes)) callAll(this.#waitingForRouter);
    if (!this.full) callAll(this.#waiting);
  }
}

/** They may add themselves again. */
function callAll(waiting: Set<() => void>): void {
  if (waiting.size === 0) return;
  const all = [...waiting];
  waiting.clear();
  for (const fn of all) fn();
}
function beginProduce(tracer: Tracer, topic: string, partition: number, bytes: number, parent: Uint8Array | undefined): Span | undefined {
  return tracer.begin(`produce ${topic}`, parent, {
    [spanAttributes.operation]: "produce",
    [spanAttributes.destination]: topic,
    [spanAttributes.partition]: String(partition),
    [spanAttributes.bytes]: bytes,
  });
}

/** Why a batch was not written, in words. */
export function produceErrorMessage(outcome: ProduceOutcome): string {
  const code = errorCodeOf(outcome.code);
  const extra = code === "UNEXPECTED_OFFSET" && outcome.baseOffset >= 0 ? ` The next offset is ${outcome.baseOffset}.` : "";
  const held = outcome.cause === undefined ? "" : ` It was held for ${outcome.cause}: ${errorCatalogue[outcome.cause].hint}`;
  return `${errorCatalogue[code].hint}${extra}${held}`;
}
export const throttleReason = (outcome: ProduceOutcome): string => {
  if (outcome.throttleMs === 0) return "";
  return outcome.code === errorNumber("DISK_FULL") ? "storage nodes are filling up" : "a queue on the way is full";
};

import { encodeAnnotations } from "@sluice/core/log";
import {
  errorCodeOf,
  errorNumber,
  partitionKey,
  type ErrorCode,
  type MemberId,
  type PartitionId,
  type PartitionKey,
  type Timers,
  type TopicId,
} from "@sluice/core/model";
import { EMPTY, produceCodec, producedCodec, type Link, type ProducedMessage, type ProduceMessage } from "@sluice/link";
import type { Clock, Timer } from "@sluice/runtime";
import type { BrokerLinks } from "./broker-links.ts";

/** What a produce call ends with. `code` 0 = durable on two storage nodes. */
export interface ProduceOutcome {
  readonly code: number;
  readonly baseOffset: number;
  readonly lastOffset: number;
  readonly appendTimeMs: number;
  readonly logStart: number;
  readonly throttleMs: number;
  /** What the call was held for when its time ran out, as far as it is known. */
  readonly cause?: ErrorCode;
}
export interface ProduceCall {
  readonly partition: PartitionId;
  /** One whole batch; not changed by the router. */
  readonly batch: Uint8Array;
  /**
   * The batch carries a producer id and sequence, so that a second attempt after an unknown outcome is stored once.
   * Without it the caller is told OUTCOME_UNKNOWN.
   */
  readonly idempotent: boolean;
  readonly expectedBaseOffset: number;
  readonly fenceToken: number;
  /**
   * Asked when the owner has never heard of the batch's producer, and it is not its first: does the caller vouch that no earlier one is missing?
   * Then it goes again, by itself at first, and the owner lets the producer begin there (`checkSequence` in core).
   */
  readonly vouches?: (() => boolean) | undefined;
  /** On the monotonic clock. */
  readonly deadlineMs: number;
  /** Trace parent of a call that is being recorded; goes with every attempt. */
  readonly trace?: Uint8Array | undefined;
  readonly done: (outcome: ProduceOutcome) => void;
}
export interface ProduceRouterOptions {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly links: BrokerLinks;
  /** Bytes of calls without an outcome, sent or held; more are refused with OVERLOADED. */
  readonly heldBytesMax: number;
  /** Why nobody could store anything now, as far as the metadata knows: told when no attempt has found out. */
  readonly unwritable?: () => ErrorCode | undefined;
  /** The topic is deleted: nobody takes its calls any more. False for one that the metadata does not show yet. */
  readonly gone?: (topic: TopicId) => boolean;
}

interface Pending extends ProduceCall {
  /** Order of arrival in its partition. */
  readonly number: number;
  /** Some attempt may have been stored. */
  uncertain: boolean;
  /** Why the last attempt came to nothing. */
  cause: ErrorCode | undefined;
  /** The owner does not know the producer and the caller vouches for it: to be told to the owner; has been told. */
  vouched: "no" | "next" | "told";
}
/**
 * The calls of one partition. `queue` holds, in order, what is not on its way; `inFlight` counts what is. After an answer that says "not
 * here, not now" the lane is held until all answers of the earlier attempt are in: then everything goes again in its first order, so that
 * a producer's sequence stays whole across a move.
 */
interface Lane {
  readonly partition: PartitionId;
  readonly queue: Pending[];
  inFlight: number;
  held: boolean;
  retryAtMs: number;
  retries: number;
  /** Where the last refusal sent this lane. An advice, for as long as there is a link to that broker: the metadata is what counts. */
  hint: MemberId | undefined;
  /** Why the last attempt came to nothing. */
  cause: ErrorCode | undefined;
  /** Where the calls in flight went. Others wait for their answers before they go elsewhere: that keeps the order. */
  target: Link | undefined;
  /**
   * The link whose broker has taken a call of this lane. Another one gets a single call first: if it refuses that (it is just taking the
   * partition over), nothing that was sent behind can be stored before it.
   */
  proven: Link | undefined;
}

/** What an attempt came to that was not stored, or not as far as is known. */
interface Refusal {
  readonly code: ErrorCode;
  readonly hint: MemberId | undefined;
  readonly throttleMs: number;
  readonly baseOffset: number;
  /** -1 = not known. */
  readonly logStart: number;
  readonly cause: ErrorCode | undefined;
}

/** Waits between attempts while a partition has no owner that takes it, ms; a change of route ends the wait at once. */
const RETRY_FIRST_MS = 10;
const RETRY_LARGEST_MS = 200;
const SWEEP_MS = 20;
const THROTTLE_MS = 50;
/** Answers that say that nothing was stored, and that another attempt may succeed. */
const NOT_STORED: ReadonlySet<ErrorCode> = new Set([
  "NOT_OWNER",
  "PARTITION_RECOVERING",
  "NOT_ENOUGH_REPLICAS",
  "DISK_FULL",
  "LINK_DOWN",
  "SHUTTING_DOWN",
  "OVERLOADED",
]);
/** Answers after which an idempotent batch may simply go again. */
const UNCERTAIN: ReadonlySet<ErrorCode> = new Set(["OUTCOME_UNKNOWN", "TIMED_OUT"]);

/** What an owner says of a batch whose earlier neighbours it has not got. */
const OUT_OF_SEQUENCE: ReadonlySet<ErrorCode> = new Set(["OUT_OF_ORDER_SEQUENCE", "UNKNOWN_PRODUCER"]);

/** Causes that tell a caller whose time is over, and whose batch is not stored, more than that it is over. */
const EXPLAINS: ReadonlySet<ErrorCode> = new Set(["NOT_ENOUGH_REPLICAS", "DISK_FULL"]);

/** Sends batches to the owners of their partitions and holds them, within their deadlines, while a partition moves. */
export class ProduceRouter {
  readonly #options: ProduceRouterOptions;
  readonly #lanes = new Map<PartitionKey, Lane>();
  readonly #message: ProduceMessage = produceCodec.create();
  readonly #answer: ProducedMessage = producedCodec.create();
  #heldBytes = 0;
  #number = 0;
  #sweep: Timer | undefined;
  #closed = false;

  constructor(options: ProduceRouterOptions) {
    this.#options = options;
  }
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** `done` is called exactly once, perhaps before this returns. */
  produce(call: ProduceCall): void {
    const { heldBytesMax } = this.#options;
    if (this.#closed) return call.done(failure("SHUTTING_DOWN"));
    if (this.#heldBytes > 0 && this.#heldBytes + call.batch.length > heldBytesMax) return call.done(failure("OVERLOADED", THROTTLE_MS));
    const pending: Pending = { ...call, number: ++this.#number, uncertain: false, cause: undefined, vouched: "no" };
    this.#heldBytes += call.batch.length;
    const key = partitionKey(call.partition);
    let lane = this.#lanes.get(key);
    if (lane === undefined) {
      lane = {
        partition: call.partition,
        queue: [],
        inFlight: 0,
        held: false,
        retryAtMs: 0,
        retries: 0,
        hint: undefined,
        cause: undefined,
        target: undefined,
        proven: undefined,
      };
      this.#lanes.set(key, lane);
    }
    lane.queue.push(pending);
    this.#pump(lane);
  }

  /** The route of a partition changed, or its topic is deleted: waiting calls go now, or end. */
  routeChanged(p: PartitionId): void {
    const lane = this.#lanes.get(partitionKey(p));
    if (lane === undefined) return;
    // The metadata is newer than what a refusal advised.
    lane.hint = undefined;
    this.#resume(lane);
  }
  linksChanged(): void {
    for (const [key, lane] of this.#lanes) {
      if (lane.queue.length > 0 || lane.inFlight > 0) this.#resume(lane);
      else if (lane.proven === undefined || lane.proven.closed) this.#lanes.delete(key);
    }
  }
  close(): void {
    this.#closed = true;
    this.#sweep?.cancel();
    for (const lane of this.#lanes.values()) {
      for (const call of lane.queue.splice(0)) this.#finish(call, failure(call.uncertain ? "OUTCOME_UNKNOWN" : "SHUTTING_DOWN"));
    }
    this.#lanes.clear();
  }

  #resume(lane: Lane): void {
    lane.retryAtMs = 0;
    this.#pump(lane);
  }

  #pump(lane: Lane): void {
    const { clock } = this.#options;
    if (this.#isGone(lane)) return this.#end(lane);
    if (lane.held && lane.inFlight > 0) {
      // Those that wait for the answers of others have deadlines of their own.
      if (lane.queue.length > 0) this.#arm();
      return;
    }
    const now = clock.monotonicMs();
    if (lane.retryAtMs > now) return this.#arm();
    lane.held = false;
    while (lane.queue.length > 0 && !lane.held) {
      const link = this.#route(lane);
      if (link === undefined || !link.writable || (lane.inFlight > 0 && (lane.target !== link || lane.proven !== link))) break;
      const call = lane.queue[0] as Pending;
      if (call.deadlineMs <= now) {
        lane.queue.shift();
        this.#expire(lane, call);
        continue;
      }
      lane.queue.shift();
      lane.inFlight += 1;
      lane.target = link;
      if (!this.#send(link, lane, call, now)) {
        lane.inFlight -= 1;
        lane.queue.unshift(call);
        break;
      }
    }
    if (lane.queue.length > 0) this.#arm();
    else if (lane.inFlight === 0 && lane.proven === undefined) this.#lanes.delete(partitionKey(lane.partition));
  }

  #isGone({ partition }: Lane): boolean {
    return this.#options.gone?.(partition.topicId) === true;
  }
  /** Of a topic that is deleted. What is on its way has its broker's answer to wait for. */
  #end(lane: Lane): void {
    if (lane.inFlight === 0) this.#lanes.delete(partitionKey(lane.partition));
    for (const call of lane.queue.splice(0)) this.#finish(call, failure("UNKNOWN_TOPIC"));
  }

  /** A hint may name a broker that has died since, or was dead when it was given: nobody would take it back, so it is never waited for. */
  #route(lane: Lane): Link | undefined {
    const { links } = this.#options;
    const hinted = lane.hint === undefined ? undefined : links.get(lane.hint);
    if (hinted !== undefined) return hinted;
    const owner = links.ownerOf(lane.partition);
    return owner === undefined ? undefined : links.get(owner);
  }

  #send(link: Link, lane: Lane, call: Pending, now: number): boolean {
    const m = this.#message;
    m.topicId = call.partition.topicId;
    m.partition = call.partition.partition;
    m.expectedBaseOffset = call.expectedBaseOffset;
    m.fenceToken = call.fenceToken;
    m.deadlineMs = Math.max(1, Math.ceil(call.deadlineMs - now));
    // Alone: one that is sent behind others could be taken when they are refused, and overtake its own.
    const anySequence = call.vouched === "next" && lane.inFlight === 1;
    if (anySequence) call.vouched = "told";
    m.annotations = annotationsOf(call.trace, anySequence);
    const sent = link.request(produceCodec, m, call.batch, m.deadlineMs, (frame, problem) => {
      lane.inFlight -= 1;
      if (frame === undefined) {
        const certain = problem?.sent === false || problem?.answered === true;
        this.#retryOrFail(lane, call, refusal(certain ? "LINK_DOWN" : "OUTCOME_UNKNOWN"));
        return;
      }
      const a = producedCodec.decode(frame, this.#answer);
      link.release(frame.creditBytes);
      if (a.code === 0) {
        lane.retries = 0;
        lane.cause = undefined;
        lane.hint = undefined;
        lane.proven = link;
        this.#finish(call, {
          code: 0,
          baseOffset: a.baseOffset,
          lastOffset: a.lastOffset,
          appendTimeMs: a.logAppendTimeMs,
          logStart: a.logStart,
          throttleMs: a.throttleMs,
        });
        if (lane.queue.length > 0 || lane.inFlight === 0) this.#pump(lane);
        return;
      }
      this.#retryOrFail(lane, call, {
        code: errorCodeOf(a.code),
        hint: a.ownerHint === "" ? undefined : (a.ownerHint as MemberId),
        throttleMs: a.throttleMs,
        baseOffset: a.baseOffset,
        logStart: a.logStart,
        cause: a.cause === 0 ? undefined : errorCodeOf(a.cause),
      });
    });
    if (!sent && anySequence) call.vouched = "next";
    return sent;
  }

  #retryOrFail(lane: Lane, call: Pending, { code, hint, throttleMs, baseOffset, logStart, cause }: Refusal): void {
    const { clock } = this.#options;
    const uncertain = UNCERTAIN.has(code);
    // A batch whose earlier neighbour is about to go again is only early, not wrong.
    const early = OUT_OF_SEQUENCE.has(code) && lane.held;
    // The first refusal of an attempt: those behind it are early, and go on once it is stored.
    const unheard = code === "UNKNOWN_PRODUCER" && !lane.held && call.vouched !== "told" && call.vouches?.() === true;
    // Told, and not stored for another reason, perhaps by an owner that is gone: the next one has not heard of it either.
    if (unheard || (call.vouched === "told" && code !== "UNKNOWN_PRODUCER")) call.vouched = "next";
    const again = NOT_STORED.has(code) || unheard || (call.idempotent && (uncertain || early));
    if (again && this.#isGone(lane)) {
      // Wherever it may have been stored is deleted too.
      this.#finish(call, failure("UNKNOWN_TOPIC"));
      return this.#end(lane);
    }
    if (uncertain) call.uncertain = true;
    call.cause = cause ?? (uncertain ? call.cause : code);
    lane.cause = call.cause;
    if (!again || this.#closed || call.deadlineMs <= clock.monotonicMs()) {
      if (again) this.#expire(lane, call);
      else this.#finish(call, { ...failure(code, throttleMs, uncertain ? call.cause : undefined), baseOffset, logStart });
      this.#pump(lane);
      return;
    }
    insertInOrder(lane.queue, call);
    lane.proven = undefined;
    // The first refusal of an attempt decides the wait; those that follow belong to the same attempt.
    if (!lane.held) {
      lane.held = true;
      // Not two in a row: brokers that are both behind would send the lane to each other.
      lane.hint = lane.hint === undefined ? hint : undefined;
      lane.retryAtMs = clock.monotonicMs() + Math.min(RETRY_LARGEST_MS, RETRY_FIRST_MS * 2 ** Math.min(lane.retries, 8));
      lane.retries += 1;
    }
    this.#pump(lane);
  }

  #expire(lane: Lane, call: Pending): void {
    // One that was not sent waited behind those that were, or for room on the link to the owner, or there was nobody to send it to.
    const { links, unwritable } = this.#options;
    let cause = call.cause ?? lane.cause;
    if (cause === undefined || !EXPLAINS.has(cause)) cause = unwritable?.() ?? cause;
    cause ??= links.ownerOf(call.partition) === undefined ? "PARTITION_RECOVERING" : "LINK_DOWN";
    const certain = EXPLAINS.has(cause) ? cause : "TIMED_OUT";
    this.#finish(call, failure(call.uncertain ? "OUTCOME_UNKNOWN" : certain, 0, cause));
  }
  #finish(call: Pending, outcome: ProduceOutcome): void {
    this.#heldBytes -= call.batch.length;
    call.done(outcome);
  }

  /** One timer for all lanes: ends waits and calls whose time is over. */
  #arm(): void {
    if (this.#sweep !== undefined || this.#closed) return;
    this.#sweep = this.#options.clock.setTimer(SWEEP_MS, () => {
      this.#sweep = undefined;
      const now = this.#options.clock.monotonicMs();
      for (const lane of this.#lanes.values()) {
        for (let i = lane.queue.length - 1; i >= 0; i -= 1) {
          const call = lane.queue[i] as Pending;
          if (call.deadlineMs <= now) {
            lane.queue.splice(i, 1);
            this.#expire(lane, call);
          }
        }
        this.#pump(lane);
      }
      for (const lane of this.#lanes.values()) if (lane.queue.length > 0) return this.#arm();
    });
  }
}

/** Of nearly every call: none. */
function annotationsOf(trace: Uint8Array | undefined, anySequence: boolean): Uint8Array {
  if (trace === undefined && !anySequence) return EMPTY;
  return encodeAnnotations({ ...(trace !== undefined && { traceParent: trace }), ...(anySequence && { anySequence }) });
}
function insertInOrder(queue: Pending[], call: Pending): void {
  let at = queue.length;
  while (at > 0 && (queue[at - 1] as Pending).number > call.number) at -= 1;
  queue.splice(at, 0, call);
}
const refusal = (code: ErrorCode): Refusal => ({ code, hint: undefined, throttleMs: 0, baseOffset: -1, logStart: -1, cause: undefined });
const failure = (code: ErrorCode, throttleMs = 0, cause?: ErrorCode): ProduceOutcome => ({
  code: errorNumber(code),
  baseOffset: -1,
  lastOffset: -1,
  appendTimeMs: -1,
  logStart: -1,
  throttleMs,
  ...(cause !== undefined && cause !== code && { cause }),
});

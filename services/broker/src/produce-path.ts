import {
  BatchCursor,
  decodeAnnotations,
  newBatchHeader,
  newProducedRun,
  stampAppendTime,
  validateRun,
  type BatchHeader,
  type BatchRules,
  type Crc32c,
  type ProducedRun,
} from "@sluice/core/log";
import {
  errorCodeOf,
  errorNumber,
  partitionKey,
  RESERVED_PREFIX,
  topicId,
  topicSettings,
  type Timers,
  type TopicRecord,
  type MemberId,
} from "@sluice/core/model";
import { claimPayload, produceCodec, producedCodec, type Frame, type Link, type ProducedMessage, type ProduceMessage } from "@sluice/link";
import { spanAttributes, type Clock, type Span, type Tracer } from "@sluice/runtime";
import type { BrokerMetrics } from "./metrics.ts";
import type { Ownership } from "./ownership.ts";
import type { AppendOutcome } from "./partition-host.ts";

const EMPTY = new Uint8Array(0);
/** Advice to a caller whose batch found the broker's memory full, ms. */
const OVERLOAD_THROTTLE_MS = 50;

export interface ProducePathOptions {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly crc32c: Crc32c;
  readonly metrics: BrokerMetrics;
  readonly ownership: Ownership;
  readonly tracer?: Tracer | undefined;
  /** Bytes that may wait for their answers in this broker. */
  readonly pendingBytesMax: number;
}

type Refusal = Pick<AppendOutcome, "code" | "target" | "throttleMs"> & Partial<AppendOutcome>;
interface Rules {
  readonly topic: TopicRecord;
  readonly batch: {
    messageBytesMax: number;
    crc32c: Crc32c;
    internal: boolean;
    timestamps: { nowMs: number; beforeMaxMs: number; afterMaxMs: number } | undefined;
  };
  readonly appendTime: boolean;
}

/**
 * A produce frame's way through the broker: look up the partition, judge headers and CRCs, hand the bytes to the machine, answer when
 * it does. Storage nodes check the CRC again before they sync. Nothing is decoded or copied here.
 */
export class ProducePath {
  readonly #options: ProducePathOptions;
  readonly #request: ProduceMessage = produceCodec.create();
  readonly #answer: ProducedMessage = producedCodec.create();
  readonly #header: BatchHeader = newBatchHeader();
  readonly #run: ProducedRun = newProducedRun();
  readonly #rules = new WeakMap<TopicRecord, Rules>();
  #pendingBytes = 0;

  constructor(options: ProducePathOptions) {
    this.#options = options;
  }
  get pendingBytes(): number {
    return this.#pendingBytes;
  }

  /** Releases the frame's credit once it is answered. */
  take(link: Link, frame: Frame): void {
    const { ownership, clock, timers, metrics } = this.#options;
    const request = produceCodec.decode(frame, this.#request);
    const { correlation, payload, creditBytes } = frame;
    const annotations = request.annotations.length === 0 ? undefined : decodeAnnotations(request.annotations);
    // A copy: it lives with the batch, the header's memory does not.
    const parent = annotations?.traceParent?.slice();
    const handle = claimPayload(frame);
    const refuse = (code: number, target: MemberId | undefined, throttleMs = 0): void => {
      this.#refuse(link, correlation, creditBytes, { code, target, throttleMs });
      handle.release();
    };
    const key = partitionKey({ topicId: topicId(request.topicId), partition: request.partition });
    const host = ownership.hostByKey(key);
    if (host === undefined) return refuse(errorNumber("NOT_OWNER"), ownership.assignedTo(key));
    if (this.#pendingBytes + payload.length > this.#options.pendingBytesMax && this.#pendingBytes > 0) {
      return refuse(errorNumber("OVERLOADED"), undefined, OVERLOAD_THROTTLE_MS);
    }
    const wallMs = clock.wallMs();
    const rules = this.#rulesOf(host.topic, wallMs);
    const bad = validateRun(payload, rules.batch as BatchRules, this.#header, this.#run);
    if (bad !== undefined) return refuse(errorNumber(bad), undefined);
    if (rules.appendTime) {
      stampAppendTimes(payload, wallMs, this.#options.crc32c);
      validateRun(payload, { ...rules.batch, internal: true, timestamps: undefined, crc32c: undefined }, this.#header, this.#run);
    }
    const startedMs = clock.monotonicMs();
    const bytes = payload.length;
    const { records, batches } = this.#run;
    this.#pendingBytes += bytes;
    metrics.appendBytes.inc(bytes);
    metrics.appendBatches.inc(batches);
    const span = parent === undefined ? undefined : this.#span(parent, host.topic, request.partition, payload.length, records);
    // From here on the machine says when the memory may be used again; until then its places are the pipeline, the links to the nodes and the tail.
    host.append(
      {
        handle,
        batch: payload,
        header: this.#header,
        run: batches > 1 ? this.#run : undefined,
        expectedBaseOffset: request.expectedBaseOffset,
        fenceToken: request.fenceToken,
        anySequence: annotations?.anySequence,
        deadlineMs: startedMs + (request.deadlineMs > 0 ? request.deadlineMs : timers.produceHoldMs),
        wallMs,
        trace: span?.context ?? parent,
      },
      (outcome) => {
        span?.end(outcome.code === 0 ? undefined : errorCodeOf(outcome.code));
        this.#pendingBytes -= bytes;
        metrics.pendingBytes.set(this.#pendingBytes);
        if (outcome.code === 0) metrics.appendSeconds.observe((clock.monotonicMs() - startedMs) / 1000);
        this.#reply(link, correlation, creditBytes, outcome, records, rules.appendTime ? wallMs : -1);
      },
    );
  }

  #span(parent: Uint8Array, topic: TopicRecord, partition: number, bytes: number, records: number): Span | undefined {
    return this.#options.tracer?.begin(`append ${topic.name}`, parent, {
      [spanAttributes.operation]: "append",
      [spanAttributes.destination]: topic.name,
      [spanAttributes.partition]: String(partition),
      [spanAttributes.records]: records,
      [spanAttributes.bytes]: bytes,
    });
  }

  #reply(link: Link, correlation: number, creditBytes: number, outcome: AppendOutcome, records: number, appendTimeMs: number): void {
    if (link.closed) return;
    if (outcome.code !== 0) return this.#refuse(link, correlation, creditBytes, outcome);
    const m = this.#answer;
    m.code = 0;
    m.throttleMs = outcome.throttleMs;
    m.baseOffset = outcome.baseOffset;
    m.lastOffset = outcome.baseOffset + records - 1;
    m.logAppendTimeMs = appendTimeMs;
    m.logStart = outcome.logStart;
    m.ownerHint = "";
    m.cause = 0;
    link.send(producedCodec, correlation, m, EMPTY);
    link.release(creditBytes);
  }

  #refuse(
    link: Link,
    correlation: number,
    creditBytes: number,
    { code, target, throttleMs, baseOffset = -1, logStart = -1, cause = 0 }: Refusal,
  ): void {
    this.#options.metrics.refused.labels(String(code)).inc();
    if (link.closed) return;
    const m = this.#answer;
    m.code = code;
    m.throttleMs = throttleMs;
    m.baseOffset = baseOffset;
    m.lastOffset = -1;
    m.logAppendTimeMs = -1;
    m.logStart = logStart;
    m.ownerHint = target ?? "";
    m.cause = cause;
    link.send(producedCodec, correlation, m, EMPTY);
    link.release(creditBytes);
  }

  /** One object per topic record, its clock moved on: nothing is made per batch. */
  #rulesOf(topic: TopicRecord, wallMs: number): Rules {
    let rules = this.#rules.get(topic);
    if (rules === undefined) {
      const settings = topicSettings(topic.config);
      rules = {
        topic,
        appendTime: settings.logAppendTime,
        batch: {
          messageBytesMax: settings.maxMessageBytes,
          // Storage nodes check it too, and what they refuse could never leave the pipeline: one damaged batch would block its partition.
          crc32c: this.#options.crc32c,
          internal: topic.name.startsWith(RESERVED_PREFIX),
          timestamps: settings.logAppendTime
            ? undefined
            : { nowMs: wallMs, beforeMaxMs: settings.timestampBeforeMaxMs, afterMaxMs: settings.timestampAfterMaxMs },
        },
      };
      this.#rules.set(topic, rules);
    }
    if (rules.batch.timestamps !== undefined) rules.batch.timestamps.nowMs = wallMs;
    return rules;
  }
}

function stampAppendTimes(run: Uint8Array, wallMs: number, crc32c: Crc32c): void {
  const cursor = new BatchCursor(run);
  while (cursor.next()) stampAppendTime(run, cursor.position, wallMs, crc32c);
}

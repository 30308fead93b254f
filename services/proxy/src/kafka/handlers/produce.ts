import { codecs } from "@sluice/core/log";
import { errorCodeOf, SluiceError, topicSettings, type TopicRecord } from "@sluice/core/model";
import {
  apis,
  type Input,
  type ProduceRequest,
  type ProduceRequestPartitionProduceData,
  type ProduceResponse,
  type ProduceResponsePartitionProduceResponse,
} from "@sluice/kafka-wire";
import type { ProduceOutcome } from "@sluice/partition-client";
import { answerDeadline } from "../../answer-deadline.ts";
import type { CheckedBatch } from "../../batch-encoder.ts";
import { produceErrorMessage, type ProduceData } from "../../produce-path.ts";
import { defineHandler, type AnyHandler, type KafkaCall, type Reply } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { KafkaError, kafkaCodeOf, kafkaFailure } from "../errors.ts";
import { currentLeader, nodeEndpoints, type Elsewhere } from "../redirects.ts";

type PartitionAnswer = Input<ProduceResponsePartitionProduceResponse>;
/** From this version on a client may compress with zstd. */
const ZSTD_FROM = 7;
/** From this version on a client is told where the leader is. */
const LEADERS_FROM = 10;
/** Low byte of the batch's attributes. */
const AT_CODEC = 22;
const CODEC_MASK = 0x07;

/**
 * Batches to the owners of their partitions, as they came. Requests of a connection are handed to the router in their order without waiting for
 * one another; the answers are put in order by the connection.
 */
export const produce = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.Produce,
    // librdkafka before 2.11.1 compresses only for a broker that tells of versions 0 to 2: these are told, and refused.
    toldMin: 0,
    access: { resource: "topic", operation: "write" },
    pipelined: true,
    handle: (request, call) => new ProduceRun(context, request, call).start(),
  });

/** One request: all partitions are sent at once, the answer is complete when the last of them is. */
class ProduceRun {
  readonly #context: KafkaContext;
  readonly #request: ProduceRequest;
  readonly #call: KafkaCall;
  readonly #deadlineMs: number;
  readonly #answers: PartitionAnswer[][];
  readonly #finished = Promise.withResolvers<Reply<ProduceResponse>>();
  /** Of partitions that other proxies should be asked for. */
  readonly #elsewhere: Elsewhere[] = [];
  #open = 1;
  #throttleMs = 0;
  #failed = "";

  constructor(context: KafkaContext, request: ProduceRequest, call: KafkaCall) {
    this.#context = context;
    this.#request = request;
    this.#call = call;
    this.#deadlineMs = answerDeadline(context.clock, context.timers, Math.max(1, request.timeoutMs));
    this.#answers = request.topicData.map(() => []);
  }

  start(): Promise<Reply<ProduceResponse>> {
    const { acks, transactionalId, topicData } = this.#request;
    const refusal =
      acks < -1 || acks > 1 ? KafkaError.invalidRequiredAcks : transactionalId !== null ? KafkaError.unsupportedVersion : KafkaError.none;
    if (refusal !== KafkaError.none) {
      topicData.forEach((topic, t) => topic.partitionData.forEach(({ index }) => this.#refuse(t, index, refusal, "")));
    } else {
      const waits = topicData.map((topic, t) => this.#topic(topic.name, t)).filter((wait) => wait !== undefined);
      // A look-up has to end before a later request may find the topic known, and overtake.
      if (waits.length > 0) {
        const all = Promise.all(waits);
        this.#call.startNextAfter(all);
        this.#context.path.waits(bytesOf(this.#request), all);
      }
    }
    this.#done();
    return this.#finished.promise;
  }

  /** Without a promise when the topic is known and nobody has to be asked for rights: that is every request but the first. */
  #topic(name: string, t: number): Promise<void> | undefined {
    const { topics } = this.#context;
    const allowed = this.#call.may(name);
    const topic = allowed === true ? topics.known(this.#call.principal.tenant, name) : undefined;
    if (topic !== undefined) return this.#partitions(topic, t);
    this.#open += 1;
    return Promise.resolve(allowed)
      .then(async (may) => {
        if (!may) throw new SluiceError("PERMISSION_DENIED", `${this.#call.principal.name} may not write to topic ${name}`);
        await this.#partitions(await topics.find(this.#call.principal.tenant, name), t);
      })
      .catch((error: unknown) => {
        const { errorCode, errorMessage } = kafkaFailure(error);
        for (const { index } of this.#request.topicData[t]?.partitionData ?? []) this.#refuse(t, index, errorCode, errorMessage);
      })
      .finally(() => this.#done());
  }
  /** A promise only when the router was full and some had to wait. */
  #partitions(topic: TopicRecord, t: number): Promise<void> | undefined {
    const stampsTime = topicSettings(topic.config).logAppendTime;
    let wait: Promise<void> | undefined;
    for (const data of this.#request.topicData[t]?.partitionData ?? []) {
      if (wait !== undefined) wait = wait.then(() => this.#partition(topic, stampsTime, t, data));
      else wait = this.#partition(topic, stampsTime, t, data);
    }
    // The request is open until the last of those that wait has been sent.
    if (wait === undefined) return undefined;
    this.#open += 1;
    return wait.finally(() => this.#done());
  }

  #partition(topic: TopicRecord, stampsTime: boolean, t: number, part: ProduceRequestPartitionProduceData): Promise<void> | undefined {
    const { path } = this.#context;
    const { index, records } = part;
    if (this.#redirect(topic, t, index)) return undefined;
    let checked: CheckedBatch;
    const data = { partition: index, batch: records as Uint8Array, records: undefined, expectedBaseOffset: -1, fenceToken: -1 };
    try {
      this.#check(records);
      checked = path.check(topic, data);
    } catch (error) {
      const { errorCode, errorMessage } = kafkaFailure(error);
      this.#refuse(t, index, errorCode, errorMessage);
      return undefined;
    }
    const { length } = checked.batch;
    if (!path.hasRoomFor(length)) return this.#whenRoom(length, () => this.#send(topic, checked, data, stampsTime, t));
    this.#send(topic, checked, data, stampsTime, t);
    return undefined;
  }
  /** The proxy goes away: the batch is not begun. With acks=0 a client could not be told. */
  #redirect(topic: TopicRecord, t: number, index: number): boolean {
    const { redirects } = this.#context;
    const elsewhere = this.#request.acks === 0 ? undefined : redirects.produce(this.#call, topic, index);
    if (elsewhere === undefined) return false;
    this.#elsewhere.push(elsewhere);
    this.#answers[t]?.push({
      index,
      errorCode: KafkaError.notLeaderOrFollower,
      baseOffset: -1,
      ...(this.#call.version >= LEADERS_FROM ? { currentLeader: currentLeader(elsewhere) } : {}),
    });
    return true;
  }
  #send(topic: TopicRecord, checked: CheckedBatch, data: ProduceData, stampsTime: boolean, t: number): void {
    const { path, sequenceGaps } = this.#context;
    const { signal } = this.#call;
    const { batch, partition, idempotent } = checked;
    const vouches = idempotent ? (): boolean => !sequenceGaps.has(signal, topic.name, partition, batch) : undefined;
    this.#open += 1;
    path.send(topic, checked, { ...data, vouches }, this.#deadlineMs, (index, outcome) => {
      this.#answer(t, index, idempotent ? sequenceGaps.settle(signal, topic.name, partition, batch, outcome) : outcome, stampsTime);
      this.#done();
    });
  }
  #check(records: Uint8Array | null): void {
    if (records === null || records.length === 0) throw new SluiceError("INVALID_RECORD", "there is no record batch for the partition");
    const { version } = this.#call;
    if (version < ZSTD_FROM && ((records[AT_CODEC] ?? 0) & CODEC_MASK) === codecs.zstd)
      throw new SluiceError("UNSUPPORTED_CODEC", `zstd needs version ${ZSTD_FROM} of Produce, this is ${version}`);
  }

  /**
   * The proxy itself is full: clients that do not know the error would lose the batch, so it waits here, and those behind it with it. When the time
   * is over it is sent all the same, for the router's answer; not when the client is gone.
   */
  async #whenRoom(bytes: number, send: () => void): Promise<void> {
    const { clock, path } = this.#context;
    const { signal } = this.#call;
    const { promise, resolve } = Promise.withResolvers<void>();
    const end = (): void => {
      path.offRouterRoom(look);
      resolve();
    };
    // Sent in the same turn: the next one that waits must find what room is left then.
    const look = (): void => {
      if (!path.hasRoomFor(bytes)) return path.onRouterRoom(look);
      send();
      end();
    };
    const expire = (): void => {
      send();
      end();
    };
    path.onRouterRoom(look);
    const timer = clock.setTimer(Math.max(0, this.#deadlineMs - clock.monotonicMs()), expire, { unref: true });
    signal.addEventListener("abort", end, { once: true });
    if (signal.aborted) end();
    await promise;
    timer.cancel();
    signal.removeEventListener("abort", end);
  }

  #answer(t: number, index: number, outcome: ProduceOutcome, stampsTime: boolean): void {
    this.#throttleMs = Math.max(this.#throttleMs, outcome.throttleMs);
    // Kafka's codes are fewer: the message names ours.
    if (outcome.code !== 0)
      // The Java client goes on from UNKNOWN_PRODUCER_ID only when it knows where the log starts.
      return this.#refuse(
        t,
        index,
        produceCode(outcome.code),
        `${errorCodeOf(outcome.code)}: ${produceErrorMessage(outcome)}`,
        outcome.logStart,
      );
    this.#answers[t]?.push({
      index,
      baseOffset: outcome.baseOffset,
      logAppendTimeMs: stampsTime ? outcome.appendTimeMs : -1,
      logStartOffset: outcome.logStart,
    });
  }
  #refuse(t: number, index: number, errorCode: number, errorMessage: string, logStartOffset = -1): void {
    this.#failed = `partition ${index} of ${this.#request.topicData[t]?.name ?? ""}: error ${errorCode} ${errorMessage}`;
    this.#answers[t]?.push({ index, errorCode, errorMessage: errorMessage === "" ? null : errorMessage, baseOffset: -1, logStartOffset });
  }

  #done(): void {
    this.#open -= 1;
    if (this.#open > 0) return;
    if (this.#request.acks !== 0) {
      const responses = this.#request.topicData.map(({ name }, t) => ({ name, partitionResponses: this.#answers[t] ?? [] }));
      const endpoints = this.#call.version >= LEADERS_FROM ? { nodeEndpoints: nodeEndpoints(this.#elsewhere) } : {};
      return this.#finished.resolve({ responses, throttleTimeMs: this.#throttleMs, ...endpoints });
    }
    if (this.#failed !== "") this.#call.disconnect(this.#failed);
    this.#finished.resolve(undefined);
  }
}

function bytesOf({ topicData }: ProduceRequest): number {
  let bytes = 0;
  for (const { partitionData } of topicData) for (const { records } of partitionData) bytes += records?.length ?? 0;
  return bytes;
}

/** What clients take for "try again": codes that they do not know for a produce would end the batch. */
function produceCode(number: number): number {
  const code = errorCodeOf(number);
  return code === "OVERLOADED" ? kafkaCodeOf("TIMED_OUT") : kafkaCodeOf(code);
}

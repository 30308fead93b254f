import { BatchCursor } from "@sluice/core/log";
import { limits, SluiceError, type PartitionId, type TopicRecord } from "@sluice/core/model";
import {
  apis,
  type FetchRequest,
  type FetchRequestFetchPartition,
  type FetchResponse,
  type FetchResponseFetchableTopicResponse,
  type FetchResponsePartitionData,
  type Input,
} from "@sluice/kafka-wire";
import { proxyLimits } from "../../limits.ts";
import { readCanRetry, type ReadAnswer, type Reader } from "../../read-path.ts";
import { partitionOf, refuseReserved } from "../../topics.ts";
import { inParallel } from "../../parallel.ts";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { KafkaError, kafkaFailure } from "../errors.ts";
import { checkLeaderEpoch, type EpochLookUps } from "../leader-epoch.ts";
import { IDS_FROM, type FetchScope } from "../fetch-sessions.ts";
import { kafkaLimits } from "../limits.ts";
import { currentLeader, nodeEndpoints, type Elsewhere } from "../redirects.ts";
import { topicNamed } from "../topic-admin.ts";
import { topicWithId } from "./metadata.ts";

const READ_COMMITTED = 1;
/** From these versions on a client is told who leads a partition, and where that is. */
const LEADER_FROM = 12;
const ENDPOINTS_FROM = 16;

/**
 * Reads whole batches as they are stored, the one that holds the asked offset first, even when it is larger than the client's limit. Waits until
 * `minBytes` are there, the time is over, a partition has an error, or the proxy drains. What a client in a session does not name is read all the same.
 */
export const fetch = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.Fetch,
    access: { resource: "topic", operation: "read" },
    async handle(request, call) {
      const scope = context.fetchSessions.scope(request, call.version, call.signal);
      if (scope.errorCode !== 0) return { errorCode: scope.errorCode };
      const run = new FetchRun(context, request, scope, call);
      try {
        return await run.answer();
      } finally {
        run.close();
      }
    },
  });

interface Part {
  readonly asked: FetchRequestFetchPartition;
  reader: Reader | undefined;
  errorCode: number;
  /** With NOT_LEADER_OR_FOLLOWER. */
  elsewhere: Elsewhere | undefined;
  runs: Uint8Array[];
  bytes: number;
  last: ReadAnswer | undefined;
  /** Its next batch does not fit what room is left, which only gets less: there is no more to it in this answer. */
  isCut: boolean;
}
interface TopicParts {
  readonly topic: string;
  readonly topicId: string;
  readonly record: TopicRecord | undefined;
  readonly parts: Part[];
}

class FetchRun {
  readonly #context: KafkaContext;
  readonly #request: FetchRequest;
  readonly #scope: FetchScope;
  readonly #call: KafkaCall;
  readonly #maxBytes: number;
  readonly #epochs: EpochLookUps = new Map();
  #topics: TopicParts[] = [];
  #bytes = 0;

  constructor(context: KafkaContext, request: FetchRequest, scope: FetchScope, call: KafkaCall) {
    this.#context = context;
    this.#request = request;
    this.#scope = scope;
    this.#call = call;
    this.#maxBytes = Math.max(0, Math.min(request.maxBytes, limits.fetchBytesMax));
  }
  close(): void {
    for (const { parts } of this.#topics) for (const { reader } of parts) if (reader !== undefined) this.#context.reads.close(reader);
  }

  async answer(): Promise<Input<FetchResponse>> {
    const { clock, timers, metrics } = this.#context;
    const { signal, ending } = this.#call;
    // The proxy was going away before the fetch came: that does not end its wait, or a client that stays would ask without a pause.
    const isLate = ending.aborted;
    const waitMs = Math.min(this.#request.maxWaitMs, isLate ? kafkaLimits.redirectFetchWaitMs : timers.fetchWaitMsMax);
    const untilMs = clock.monotonicMs() + waitMs;
    const until = isLate ? signal : ending;
    this.#topics = await inParallel(this.#scope.topics, kafkaLimits.topicsParallel, async ({ topic, topicId, partitions }) => ({
      topic,
      topicId,
      ...(await this.#open(topic, topicId, partitions)),
    }));
    if (isLate) this.#redirect();
    const parts = this.#topics.flatMap((topic) => topic.parts);
    const minBytes = Math.min(this.#request.minBytes, this.#maxBytes);
    for (;;) {
      await this.#read(parts);
      const isOver = this.#bytes >= minBytes || parts.length === 0 || parts.some((part) => part.errorCode !== 0);
      const leftMs = untilMs - clock.monotonicMs();
      const open = parts.filter((part) => this.#isOpen(part));
      if (isOver || open.length === 0 || leftMs <= 0 || until.aborted) break;
      await this.#wait(open, leftMs, until);
    }
    // What was found meanwhile is delivered first.
    if (!isLate && ending.aborted) this.#redirect();
    metrics.consumeBytes.inc(this.#bytes);
    const elsewhere = parts.flatMap((part) => part.elsewhere ?? []);
    return {
      sessionId: this.#scope.sessionId,
      responses: this.#responses(),
      ...(this.#call.version >= ENDPOINTS_FROM ? { nodeEndpoints: nodeEndpoints(elsewhere) } : {}),
    };
  }
  /** The proxy goes away: what is empty so far is read through another one. */
  #redirect(): void {
    for (const { parts, record } of this.#topics) {
      for (const part of parts) {
        if (record === undefined || part.errorCode !== 0 || part.bytes > 0) continue;
        part.elsewhere = this.#context.redirects.fetch(this.#call, record, part.asked.partition);
        if (part.elsewhere !== undefined) part.errorCode = KafkaError.notLeaderOrFollower;
      }
    }
  }
  #responses(): Input<FetchResponseFetchableTopicResponse>[] {
    const responses = [];
    for (const { topic, topicId, parts } of this.#topics) {
      const partitions = [];
      for (const part of parts) {
        const data = this.#partition(part);
        if (this.#scope.tells(topicId, topic, data, part.bytes)) partitions.push(data);
      }
      if (partitions.length > 0) responses.push({ topic, topicId, partitions });
    }
    return responses;
  }

  async #open(name: string, id: string, partitions: readonly FetchRequestFetchPartition[]): Promise<Pick<TopicParts, "record" | "parts">> {
    let topic: TopicRecord | undefined;
    let failed = 0;
    try {
      if (this.#call.version < IDS_FROM) {
        refuseReserved(name);
        topic = await topicNamed(this.#context, this.#call, name);
      } else {
        topic = await topicWithId(this.#context, id);
        if (topic === undefined || topic.tenant !== this.#call.principal.tenant) failed = KafkaError.unknownTopicId;
        else if (!(await this.#call.may(topic.name))) failed = KafkaError.topicAuthorizationFailed;
        else refuseReserved(topic.name);
      }
    } catch (error) {
      failed = fetchCode(error);
    }
    const parts = await inParallel(partitions, kafkaLimits.offsetsParallel, async (asked) => {
      const empty = { reader: undefined, elsewhere: undefined, runs: [], bytes: 0, last: undefined, isCut: false };
      const part: Part = { ...empty, asked, errorCode: failed };
      if (failed !== 0 || topic === undefined) return part;
      try {
        const id = partitionOf(topic, asked.partition);
        part.errorCode = await checkLeaderEpoch(this.#context, id, asked.currentLeaderEpoch, this.#epochs);
        if (part.errorCode === 0) part.reader = this.#reader(topic, id, asked.fetchOffset);
      } catch (error) {
        part.errorCode = fetchCode(error);
      }
      return part;
    });
    return { record: topic, parts };
  }
  #reader(topic: TopicRecord, partition: PartitionId, offset: number): Reader {
    const start = this.#context.positions.earliest(partition).offset;
    if (offset < start) throw new SluiceError("OFFSET_OUT_OF_RANGE", `offset ${offset} is before the log start ${start}`);
    return this.#context.reads.open(topic, partition, offset);
  }

  /** One pass over the partitions in the order of the request, as far as the answer has room. Some are read at the same time. */
  async #read(parts: readonly Part[]): Promise<void> {
    for (let from = 0; from < parts.length && this.#room() > 0; from += kafkaLimits.fetchParallel) {
      const some = parts.slice(from, from + kafkaLimits.fetchParallel).filter((part) => this.#isOpen(part));
      const answers = await Promise.all(some.map((part) => this.#readOne(part)));
      some.forEach((part, i) => this.#take(part, answers[i]));
    }
  }
  /** Before anything is found there is room for one batch, however small the limit. */
  #room(): number {
    return this.#bytes === 0 ? Math.max(1, this.#maxBytes) : this.#maxBytes - this.#bytes;
  }
  #roomOf({ asked, bytes, reader, errorCode }: Part): number {
    if (reader === undefined || errorCode !== 0) return 0;
    return Math.min(this.#room(), bytes === 0 ? Math.max(1, asked.partitionMaxBytes) : asked.partitionMaxBytes - bytes);
  }
  /** Another read may add to it. */
  #isOpen(part: Part): boolean {
    return !part.isCut && this.#roomOf(part) > 0;
  }
  async #readOne(part: Part): Promise<ReadAnswer | undefined> {
    const { clock, reads } = this.#context;
    const nowMs = clock.monotonicMs();
    try {
      return await reads.read(part.reader as Reader, {
        maxBytes: this.#roomOf(part),
        waitUntilMs: nowMs,
        giveUpMs: nowMs,
        signal: this.#call.signal,
      });
    } catch (error) {
      // No copy answers now: the client asks again without being told, as when there is nothing new.
      if (!readCanRetry(error)) part.errorCode = kafkaFailure(error).errorCode;
      return undefined;
    }
  }
  /** What was read beside it may have used up the room meanwhile: what does not fit is left for the next fetch. */
  #take(part: Part, answer: ReadAnswer | undefined): void {
    if (answer === undefined) return;
    part.last = answer;
    const room = Math.min(this.#bytes === 0 ? Infinity : this.#maxBytes - this.#bytes, part.bytes === 0 ? Infinity : this.#roomOf(part));
    part.isCut = answer.bytes > room;
    const { runs, bytes, nextOffset } = part.isCut ? cutToFit(answer.runs, room) : answer;
    if (bytes === 0) return;
    part.runs.push(...runs);
    part.bytes += bytes;
    this.#bytes += bytes;
    (part.reader as Reader).offset = nextOffset;
  }

  /** Until one of the partitions has news. Those whose end is not followed are looked at again soon. */
  async #wait(parts: readonly Part[], leftMs: number, until: AbortSignal): Promise<void> {
    const { clock, tails } = this.#context;
    const followed: { tail: NonNullable<Reader["tail"]>; version: number }[] = [];
    let isSoon = false;
    for (const { reader } of parts) {
      if (reader === undefined) continue;
      const { tail, marks, version } = reader;
      // Committed by the mark, but no copy that was asked has it yet.
      if (tail === undefined || (marks !== undefined && marks.highWatermark > reader.offset && tail.version === version)) isSoon = true;
      else followed.push({ tail, version });
    }
    if (isSoon) await clock.sleep(Math.min(leftMs, proxyLimits.readRetryMs), until).catch(() => undefined);
    else await tails.changeOfAny(followed, Math.min(leftMs, proxyLimits.tailQuietMs), until);
  }

  #partition({ asked, reader, errorCode, elsewhere, runs, last }: Part): Input<FetchResponsePartitionData> {
    const partitionIndex = asked.partition;
    const leader = elsewhere === undefined || this.#call.version < LEADER_FROM ? {} : { currentLeader: currentLeader(elsewhere) };
    if (errorCode !== 0) return { partitionIndex, errorCode, highWatermark: -1, records: [], ...leader };
    const { highWatermark = -1, lastStableOffset = -1 } = last ?? {};
    const offset = reader?.offset ?? 0;
    // Not known: one more than was read. At the offset itself a client would take it for the end, and one that reads to the end would be done.
    const known = highWatermark < 0 ? offset + 1 : Math.max(highWatermark, offset);
    const isCommitted = this.#request.isolationLevel === READ_COMMITTED;
    return {
      partitionIndex,
      highWatermark: known,
      lastStableOffset: lastStableOffset < 0 ? known : lastStableOffset,
      logStartOffset: last?.logStart ?? -1,
      abortedTransactions: isCommitted ? [] : null,
      records: runs,
    };
  }
}

/** Codes that clients do not expect of a fetch end a consumer: what may pass has one that makes it ask again. */
const fetchCode = (error: unknown): number => (readCanRetry(error) ? KafkaError.replicaNotAvailable : kafkaFailure(error).errorCode);

/** The whole batches that fit. */
function cutToFit(runs: readonly Uint8Array[], room: number): Pick<ReadAnswer, "runs" | "bytes" | "nextOffset"> {
  const kept: Uint8Array[] = [];
  let bytes = 0;
  let nextOffset = -1;
  const cursor = new BatchCursor();
  for (const run of runs) {
    let end = 0;
    cursor.reset(run);
    while (cursor.next() && bytes + cursor.nextPosition <= room) {
      end = cursor.nextPosition;
      nextOffset = cursor.header.lastOffset + 1;
    }
    if (end > 0) kept.push(run.subarray(0, end));
    bytes += end;
    if (end < run.length) break;
  }
  return { runs: kept, bytes, nextOffset };
}

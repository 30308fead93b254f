import type {
  Input,
  FetchRequest,
  FetchRequestFetchPartition,
  FetchRequestFetchTopic,
  FetchResponsePartitionData,
} from "@sluice/kafka-wire";
import type { Clock, Counter, Labelled, Metrics } from "@sluice/runtime";
import { KafkaError } from "./errors.ts";
import { kafkaLimits } from "./limits.ts";

/** Epochs of a request that are no number of a session's next fetch. */
const FULL = 0;
const NO_SESSION = -1;
const FIRST = 1;
const LAST = 0x7fff_ffff;

/** A partition of a session, in the words of its client, and what the client was last told. */
interface SessionPartition {
  readonly topic: string;
  readonly topicId: string;
  asked: FetchRequestFetchPartition;
  highWatermark: number;
  lastStableOffset: number;
  logStart: number;
}
/** Not told yet, or an error was: whatever there is next is news. */
const UNTOLD = -2;

/** What a fetch reads, in order, and whether its client hears only of what changed. */
export interface FetchScope {
  readonly errorCode: number;
  readonly sessionId: number;
  readonly topics: readonly Pick<FetchRequestFetchTopic, "topic" | "topicId" | "partitions">[];
  /** Whether the answer names the partition; called once for each, with what there is to tell. */
  tells(topicId: string, topic: string, data: Input<FetchResponsePartitionData>, bytes: number): boolean;
}

/**
 * Fetch sessions (KIP-227): the client names its partitions once, then only what changes, and hears only of partitions with news.
 *
 *   id 0, epoch -1          no session                         -> id 0
 *   any id, epoch 0         all partitions: a new session      -> its id, or 0 when there is no room: the client names all each time
 *   its id, epoch 1, 2 ..   what changed since; forgotten ones -> partitions with records, an error or new marks
 *
 * A session lives in the proxy and belongs to the connection that began it, and ends with it: the client begins anew, on whichever proxy. With the
 * limits reached, a session that was not used for a while makes room; none does, then the newcomer goes without.
 */
export class FetchSessions {
  readonly #clock: Clock;
  /** By id, the one used last at the end. */
  readonly #sessions = new Map<number, FetchSession>();
  readonly #owned = new Map<AbortSignal, Set<FetchSession>>();
  readonly #events: Labelled<Counter>;
  #partitions = 0;
  #nextId = 1;

  constructor(clock: Clock, metrics: Metrics) {
    this.#clock = clock;
    metrics.gauge("sluice_proxy_kafka_fetch_sessions_count", "Fetch sessions of Kafka clients.", { collect: () => this.#sessions.size });
    metrics.gauge("sluice_proxy_kafka_fetch_session_partitions_count", "Partitions of all fetch sessions.", {
      collect: () => this.#partitions,
    });
    this.#events = metrics.counter(
      "sluice_proxy_kafka_fetch_sessions_total",
      "Fetch sessions by what happened: begun, refused (no room), evicted, lost (asked for and not there).",
      { labels: ["event"] },
    );
  }
  get count(): number {
    return this.#sessions.size;
  }
  get partitions(): number {
    return this.#partitions;
  }

  /** @param connection aborts when the client's connection is gone */
  scope(request: FetchRequest, version: number, connection: AbortSignal): FetchScope {
    const { sessionId, sessionEpoch } = request;
    const known = this.#sessions.get(sessionId);
    const session = known?.connection === connection ? known : undefined;
    if (sessionEpoch === NO_SESSION || sessionEpoch === FULL) {
      if (session !== undefined) this.#remove(session);
      if (sessionEpoch === NO_SESSION) return plain(request);
      return this.#begin(request, version, connection);
    }
    if (session === undefined) {
      this.#events.labels("lost").inc();
      return failed(KafkaError.fetchSessionIdNotFound);
    }
    if (session.nextEpoch !== sessionEpoch) return failed(KafkaError.invalidFetchSessionEpoch);
    if (session.usesIds !== usesIds(version)) return failed(KafkaError.fetchSessionTopicIdError);
    return this.#go(session, request);
  }

  #begin(request: FetchRequest, version: number, connection: AbortSignal): FetchScope {
    const session = new FetchSession(this.#nextId, usesIds(version), connection);
    const size = session.change(request);
    if (size === 0 || connection.aborted || !this.#makeRoom(size, connection)) {
      if (size > 0) this.#events.labels("refused").inc();
      return plain(request);
    }
    this.#nextId = this.#nextId === LAST ? 1 : this.#nextId + 1;
    this.#add(session);
    this.#events.labels("begun").inc();
    // The first answer names everything.
    return { ...session.scope(), tells: (...told) => session.tells(...told) || true };
  }
  #go(session: FetchSession, request: FetchRequest): FetchScope {
    const before = session.size;
    this.#partitions += session.change(request) - before;
    session.nextEpoch = session.nextEpoch === LAST ? FIRST : session.nextEpoch + 1;
    const { fetchSessionPartitionsMax, fetchSessionsPartitionsMax } = kafkaLimits;
    const isTooMuch = session.size > fetchSessionPartitionsMax || this.#partitions > fetchSessionsPartitionsMax;
    if (session.size === 0 || isTooMuch) {
      // Nothing is left, or too much: what there is is answered in full, and id 0 says that the session is over.
      this.#remove(session);
      return { ...session.scope(), sessionId: 0, tells: () => true };
    }
    session.usedMs = this.#clock.monotonicMs();
    this.#sessions.delete(session.id);
    this.#sessions.set(session.id, session);
    return session.scope();
  }

  #add(session: FetchSession): void {
    const { connection } = session;
    session.usedMs = this.#clock.monotonicMs();
    this.#sessions.set(session.id, session);
    this.#partitions += session.size;
    let owned = this.#owned.get(connection);
    if (owned === undefined) {
      owned = new Set();
      this.#owned.set(connection, owned);
      connection.addEventListener("abort", () => this.#connectionGone(connection), { once: true });
    }
    owned.add(session);
  }
  #connectionGone(connection: AbortSignal): void {
    for (const session of this.#owned.get(connection) ?? []) this.#remove(session);
    this.#owned.delete(connection);
  }
  #remove(session: FetchSession): void {
    if (!this.#sessions.delete(session.id)) return;
    this.#partitions -= session.size;
    this.#owned.get(session.connection)?.delete(session);
  }

  #makeRoom(size: number, connection: AbortSignal): boolean {
    const { fetchSessionsMax, fetchSessionsPerConnectionMax, fetchSessionPartitionsMax, fetchSessionsPartitionsMax } = kafkaLimits;
    if (size > fetchSessionPartitionsMax) return false;
    const own = this.#owned.get(connection);
    // A client that begins one after the other has forgotten the first.
    if (own !== undefined && own.size >= fetchSessionsPerConnectionMax) this.#evict(own.values().next().value as FetchSession);
    const beforeMs = this.#clock.monotonicMs() - kafkaLimits.fetchSessionIdleMs;
    for (const oldest of this.#sessions.values()) {
      if (this.#sessions.size < fetchSessionsMax && this.#partitions + size <= fetchSessionsPartitionsMax) break;
      if (oldest.usedMs > beforeMs) return false;
      this.#evict(oldest);
    }
    return this.#sessions.size < fetchSessionsMax && this.#partitions + size <= fetchSessionsPartitionsMax;
  }
  #evict(session: FetchSession): void {
    this.#events.labels("evicted").inc();
    this.#remove(session);
  }
}

class FetchSession {
  readonly id: number;
  readonly usesIds: boolean;
  readonly connection: AbortSignal;
  nextEpoch = FIRST;
  usedMs = 0;
  /** In the order in which they are read. */
  readonly #partitions = new Map<string, SessionPartition>();

  constructor(id: number, byId: boolean, connection: AbortSignal) {
    this.id = id;
    this.usesIds = byId;
    this.connection = connection;
  }
  get size(): number {
    return this.#partitions.size;
  }
  /** Takes over what a request names and forgets; the number of partitions then. */
  change({ topics, forgottenTopicsData }: Pick<FetchRequest, "topics" | "forgottenTopicsData">): number {
    for (const { topic, topicId, partitions } of topics) {
      for (const asked of partitions) {
        const key = this.#key(topicId, topic, asked.partition);
        const known = this.#partitions.get(key);
        if (known !== undefined) known.asked = asked;
        else this.#partitions.set(key, { topic, topicId, asked, highWatermark: UNTOLD, lastStableOffset: UNTOLD, logStart: UNTOLD });
      }
    }
    for (const { topic, topicId, partitions } of forgottenTopicsData)
      for (const partition of partitions) this.#partitions.delete(this.#key(topicId, topic, partition));
    return this.size;
  }
  scope(): FetchScope {
    const topics: { topic: string; topicId: string; partitions: FetchRequestFetchPartition[] }[] = [];
    for (const { topic, topicId, asked } of this.#partitions.values()) {
      const last = topics.at(-1);
      if (last?.topic === topic && last.topicId === topicId) last.partitions.push(asked);
      else topics.push({ topic, topicId, partitions: [asked] });
    }
    return { errorCode: KafkaError.none, sessionId: this.id, topics, tells: (...told) => this.tells(...told) };
  }
  tells(topicId: string, topic: string, data: Input<FetchResponsePartitionData>, bytes: number): boolean {
    const key = this.#key(topicId, topic, data.partitionIndex ?? 0);
    const known = this.#partitions.get(key);
    if (known === undefined) return true;
    const { highWatermark = -1, lastStableOffset = -1, logStartOffset = -1, errorCode = 0 } = data;
    const isNews =
      bytes > 0 ||
      errorCode !== 0 ||
      known.highWatermark !== highWatermark ||
      known.lastStableOffset !== lastStableOffset ||
      known.logStart !== logStartOffset;
    if (!isNews) return false;
    const isFailure = errorCode !== 0;
    known.highWatermark = isFailure ? UNTOLD : highWatermark;
    known.lastStableOffset = isFailure ? UNTOLD : lastStableOffset;
    known.logStart = isFailure ? UNTOLD : logStartOffset;
    if (bytes > 0) {
      // Next time the others come first, so that one with much to read does not starve them.
      this.#partitions.delete(key);
      this.#partitions.set(key, known);
    }
    return true;
  }
  #key(topicId: string, topic: string, partition: number): string {
    return `${this.usesIds ? topicId : topic}/${partition}`;
  }
}

/** Topics are named by their ids from this version on. */
export const IDS_FROM = 13;
const usesIds = (version: number): boolean => version >= IDS_FROM;
const plain = ({ topics }: FetchRequest): FetchScope => ({ errorCode: KafkaError.none, sessionId: 0, topics, tells: () => true });
const failed = (errorCode: number): FetchScope => ({ errorCode, sessionId: 0, topics: [], tells: () => true });

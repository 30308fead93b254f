import type { ClusterView, Keys } from "@sluice/catalog";
import {
  codeOf,
  sameReplica,
  segmentKey,
  topicSettings,
  type ReplicaId,
  type SegmentEntry,
  type SegmentRecord,
  type Timers,
} from "@sluice/core/model";
import { mayDropCopy, type ReplicaMutants, type Segment } from "@sluice/core/replica";
import type { MetadataStore } from "@sluice/metadata";
import type { Clock, Logger, Timer } from "@sluice/runtime";
import type { ReplicaHost } from "../replica-host.ts";
import { dropFacts, isMember, lookUpSegment, replaceRecord, type SegmentLookup } from "./segment-keys.ts";
import type { Uploader } from "./uploader.ts";

export interface SegmentDutyOptions {
  readonly store: MetadataStore;
  readonly keys: Keys;
  readonly view: ClusterView;
  readonly host: ReplicaHost;
  /** undefined = no object store: segments stay here. */
  readonly uploader: Uploader | undefined;
  readonly self: ReplicaId;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly timers: Timers;
  /** Segments uploaded at one time: more when the disk fills up. */
  readonly uploadsMax: () => number;
  readonly takeOverMs: number;
  /** Called after copies were dropped: journal files may be free now. */
  readonly onDropped: () => Promise<void>;
  readonly mutants?: ReplicaMutants;
}
/** Phases in which the key itself says that local copies may go. */
const RELEASED: ReadonlySet<SegmentRecord["phase"]> = new Set(["LOCAL_DELETING", "LOCAL_DELETED", "DELETING"]);
/** After a failed upload or look-up of a segment, ms: doubled up to the largest. */
const RETRY_FIRST_MS = 1_000;
const RETRY_LARGEST_MS = 60_000;

interface Watched {
  /** Phase and attempt last seen, and since when (monotonic). */
  seen: string;
  sinceMs: number;
  failures: number;
  notBeforeMs: number;
}

/**
 * What a node does for its copies beside serving them. The view only says where to look; whatever changes a key or drops a copy is decided from a linearizable
 * read made then:
 *
 *   OPEN or FENCED here, nothing heard  ─► look up: sealed by its key, kept, or dropped by the drop rule
 *   SEALED                              ─► uploaded by the first live replica, by the next when that takes too long
 *   OFFLOADED, grace over               ─► LOCAL_DELETING
 *   LOCAL_DELETING, DELETING            ─► copy dropped; the last replica to leave makes it LOCAL_DELETED
 *   LOCAL_DELETED                       ─► so is a copy that was left out of the replicas and waited for a third one
 */
export class SegmentDuty {
  readonly #options: SegmentDutyOptions;
  readonly #watched = new Map<string, Watched>();
  readonly #uploading = new Set<string>();
  readonly #stop = new AbortController();
  #timer: Timer | undefined;
  #running: Promise<void> | undefined;
  #again = false;
  #unsubscribe: () => void = () => undefined;
  #uploads: Promise<void>[] = [];

  constructor(options: SegmentDutyOptions) {
    this.#options = options;
  }
  start(): void {
    this.#unsubscribe = this.#options.view.onChange((changes) => {
      if (changes.some((c) => c.kind === "segment")) this.#soon(0);
    });
    this.#soon(0);
  }
  async stop(): Promise<void> {
    this.#unsubscribe();
    this.#stop.abort();
    this.#timer?.cancel();
    await this.#running;
    await Promise.all(this.#uploads);
  }

  #soon(delayMs: number): void {
    if (this.#stop.signal.aborted) return;
    if (this.#running !== undefined) {
      this.#again ||= delayMs === 0;
      return;
    }
    this.#timer?.cancel();
    this.#timer = this.#options.clock.setTimer(
      delayMs,
      () => {
        this.#running = this.run()
          .catch((error: unknown) => this.#options.logger.warn("segment duty failed", { code: codeOf(error), err: error }))
          .finally(() => {
            this.#running = undefined;
            const again = this.#again;
            this.#again = false;
            this.#soon(again ? 0 : this.#options.timers.offloadScanMs);
          });
      },
      { unref: true },
    );
  }

  /** One pass over the local copies. */
  async run(): Promise<void> {
    const { host, view, clock } = this.#options;
    if (host.state.failed) return;
    let dropped = 0;
    for (const s of host.state.byNumber.values()) {
      if (this.#stop.signal.aborted) break;
      if (s.status === "DELETED") continue;
      const watched = this.#watch(s);
      if (clock.monotonicMs() < watched.notBeforeMs) continue;
      try {
        if (await this.#one(s, this.#entryOf(s), watched)) dropped++;
        watched.failures = 0;
      } catch (error) {
        this.#failed(watched, s, error);
      }
    }
    for (const [key] of this.#watched) if (!this.#isLocal(key)) this.#watched.delete(key);
    await this.#leaveForTheGone(view);
    if (dropped > 0) await this.#options.onDropped();
  }

  async #one(s: Segment, entry: SegmentEntry | undefined, watched: Watched): Promise<boolean> {
    const { self, clock } = this.#options;
    const phase = entry?.record.phase;
    const seen = `${phase ?? "none"} ${entry?.record.attempt ?? ""} ${s.status}`;
    if (watched.seen !== seen) {
      watched.seen = seen;
      watched.sinceMs = clock.monotonicMs();
    }
    if (phase !== undefined && RELEASED.has(phase)) return this.#release(s);
    const unsealed = s.status !== "SEALED";
    if (unsealed || entry === undefined || !isMember(entry.record, self)) return this.#reconcile(s, entry, watched);
    if (phase === "SEALED" || phase === "UPLOADING") this.#considerUpload(s, entry.record, watched);
    else if (phase === "OFFLOADED") await this.#considerRelease(s, entry.record, watched);
    return false;
  }

  // Reconcile

  /** A copy that is not as its key says, and whose owner was not heard of for a while. */
  async #reconcile(s: Segment, entry: SegmentEntry | undefined, watched: Watched): Promise<boolean> {
    const { store, keys, self, clock, timers, mutants, logger } = this.#options;
    // The key says sealed: the owner's Seal is on its way, or got lost. Otherwise the owner has the word while it lives.
    const sealedByKey = entry !== undefined && entry.record.phase !== "OPEN" && isMember(entry.record, self);
    const waitMs = sealedByKey ? timers.controlCallTimeoutMs : timers.reconcileAfterMs;
    const quietMs = clock.wallMs() - s.heardMs;
    if (quietMs < waitMs && quietMs >= 0) return false;
    if (clock.monotonicMs() - watched.sinceMs < waitMs) return false;
    // Not again before as long has passed.
    watched.sinceMs = clock.monotonicMs();
    if (s.status === "FAILED" || s.status === "INCOMPLETE" || s.status === "REBUILD") {
      if (entry !== undefined && isMember(entry.record, self)) return false;
    }
    const found = await lookUpSegment(store, keys, s);
    if (found.record !== undefined && found.record.phase !== "OPEN" && isMember(found.record, self)) {
      await this.#sealByKey(s, found);
      return false;
    }
    if (!mayDropCopy(dropFacts(found, self), { madeBy: s.madeBy, keyRevision: s.keyRevision }, mutants)) return false;
    const [answer] = await this.#options.host.control([
      { op: "delete", partition: s.partition, segment: s.id, cause: "orphan", stateEpoch: found.state?.epoch ?? -1 },
    ]);
    if (answer?.code === 0)
      logger.info("copy dropped: no member any more", { partition: s.partitionKey, segment: s.key, madeBy: s.madeBy });
    return answer?.code === 0;
  }
  async #sealByKey(s: Segment, found: SegmentLookup): Promise<void> {
    const { host, logger } = this.#options;
    const end = found.record?.end;
    if (end === undefined || found.state === undefined || (s.status !== "OPEN" && s.status !== "FENCED" && s.status !== "FENCED_EMPTY"))
      return;
    // The key is sealed, so its transaction has committed, at the register's epoch or an earlier one.
    const [answer] = await host.control([{ op: "seal", partition: s.partition, segment: s.id, end, epoch: found.state.epoch }]);
    if (answer?.op === "seal")
      logger.info("segment sealed by its key", {
        partition: s.partitionKey,
        segment: s.key,
        end,
        status: answer.status,
        code: answer.code,
      });
  }

  // Upload

  #considerUpload(s: Segment, record: SegmentRecord, watched: Watched): void {
    const { uploader, uploadsMax, takeOverMs, clock } = this.#options;
    if (uploader === undefined || this.#uploading.has(s.key + s.partitionKey) || this.#uploading.size >= uploadsMax()) return;
    // Of a SEALED segment the first live replica is the uploader; an upload under way is taken over only when it does not get on.
    const turns = this.#rank(record) + (record.phase === "UPLOADING" ? 1 : 0);
    if (clock.monotonicMs() - watched.sinceMs < turns * takeOverMs) return;
    const name = s.key + s.partitionKey;
    this.#uploading.add(name);
    const work = this.#upload(uploader, s, watched).finally(() => {
      this.#uploading.delete(name);
      this.#uploads = this.#uploads.filter((w) => w !== work);
      this.#soon(0);
    });
    this.#uploads.push(work);
  }
  async #upload(uploader: Uploader, s: Segment, watched: Watched): Promise<void> {
    const { store, keys, self } = this.#options;
    try {
      const found = await lookUpSegment(store, keys, s);
      const { key, record, modRevision } = found;
      if (key === undefined || record === undefined || !isMember(record, self)) return;
      if (record.phase !== "SEALED" && record.phase !== "UPLOADING") return;
      await uploader.upload(s, { key, record, modRevision }, this.#stop.signal);
      watched.failures = 0;
    } catch (error) {
      this.#failed(watched, s, error);
    }
  }
  /** How many replicas before this one are alive. */
  #rank(record: SegmentRecord): number {
    const { view, self } = this.#options;
    let rank = 0;
    for (const r of record.replicas) {
      if (sameReplica(r, self)) break;
      if (view.member("segment-store", r.node)?.incarnation === r.incarnation) rank++;
    }
    return rank;
  }

  // Release

  async #considerRelease(s: Segment, record: SegmentRecord, watched: Watched): Promise<void> {
    const { view, clock, store, keys, takeOverMs, logger } = this.#options;
    const topic = view.topicsById.get(s.partition.topicId);
    const graceMs = topicSettings(topic?.config ?? {}).offloadGraceMs;
    // Both clocks: a wall clock that jumped must not take the copies from readers that just learned of the object.
    if (clock.wallMs() - (record.offloadedAtMs ?? clock.wallMs()) < graceMs) return;
    if (clock.monotonicMs() - watched.sinceMs < Math.min(graceMs, MIN_GRACE_SEEN_MS) + this.#rank(record) * takeOverMs) return;
    const { key, record: now, modRevision } = await lookUpSegment(store, keys, s);
    if (key === undefined || now?.phase !== "OFFLOADED" || now.object === undefined) return;
    const done = await replaceRecord(store, { key, record: now, modRevision }, { ...now, phase: "LOCAL_DELETING" }, this.#stop.signal);
    if (done) logger.info("local copies are released", { partition: s.partitionKey, segment: s.key, object: now.object.key });
  }

  /** The key says that the copies may go: a linearizable read, then the drop, then this node leaves the replicas. */
  async #release(s: Segment): Promise<boolean> {
    const { store, keys, host } = this.#options;
    const found = await lookUpSegment(store, keys, s);
    const phase = found.record?.phase;
    if (phase === undefined || !RELEASED.has(phase)) return false;
    if (s.status === "OPEN" || s.status === "FENCED" || s.status === "FENCED_EMPTY") await this.#sealByKey(s, found);
    const [answer] = await host.control([
      { op: "delete", partition: s.partition, segment: s.id, cause: "released", stateEpoch: found.state?.epoch ?? -1 },
    ]);
    if (answer?.code !== 0) return false;
    if (phase === "LOCAL_DELETING") await this.#leave(s, found);
    return true;
  }
  async #leave(s: Pick<Segment, "partition" | "id" | "base">, first: SegmentLookup): Promise<void> {
    const { store, keys, self } = this.#options;
    let found = first;
    for (;;) {
      const { key, record, modRevision } = found;
      if (key === undefined || record?.phase !== "LOCAL_DELETING") return;
      const { missing: _leftOut, ...kept } = record;
      const replicas = record.replicas.filter((r) => !sameReplica(r, self) && !this.#isGone(r));
      if (replicas.length === record.replicas.length) return;
      const next: SegmentRecord = { ...kept, replicas, phase: replicas.length === 0 ? "LOCAL_DELETED" : "LOCAL_DELETING" };
      if (await replaceRecord(store, { key, record, modRevision }, next, this.#stop.signal)) return;
      found = await lookUpSegment(store, keys, s);
    }
  }
  /** Copies on nodes that are gone for good, or were wiped, leave with the help of any other node. */
  async #leaveForTheGone(view: ClusterView): Promise<void> {
    const { store, keys } = this.#options;
    for (const p of view.partitions.values()) {
      for (const { record } of p.segments.values()) {
        if (record.phase !== "LOCAL_DELETING" || record.replicas.length === 0 || !record.replicas.every((r) => this.#isGone(r))) continue;
        const copy = { partition: p.id, id: record.segment, base: record.base };
        await this.#leave(copy, await lookUpSegment(store, keys, copy));
      }
    }
  }
  #isGone(r: ReplicaId): boolean {
    const node = this.#options.view.nodes.get(r.node)?.record;
    return node !== undefined && (node.phase === "GONE" || node.incarnation !== r.incarnation);
  }

  // Book-keeping

  #watch(s: Segment): Watched {
    const key = `${s.partitionKey} ${s.key}`;
    let watched = this.#watched.get(key);
    if (watched === undefined) {
      watched = { seen: "", sinceMs: this.#options.clock.monotonicMs(), failures: 0, notBeforeMs: 0 };
      this.#watched.set(key, watched);
    }
    return watched;
  }
  #isLocal(watchedKey: string): boolean {
    const [partition, segment] = watchedKey.split(" ") as [Segment["partitionKey"], Segment["key"]];
    const s = this.#options.host.state.partitions.get(partition)?.segments.get(segment);
    return s !== undefined && s.status !== "DELETED";
  }
  #entryOf(s: Segment): SegmentEntry | undefined {
    const { view, keys } = this.#options;
    const p = view.partition(s.partition);
    if (p === undefined) return undefined;
    if (s.base !== undefined) return p.segments.get(keys.segment(s.partition, s.base, s.id));
    for (const e of p.segments.values()) if (segmentKey(e.record.segment) === s.key) return e;
    return undefined;
  }
  #failed(watched: Watched, s: Segment, error: unknown): void {
    if (this.#stop.signal.aborted) return;
    const { clock, logger } = this.#options;
    const waitMs = Math.min(RETRY_LARGEST_MS, RETRY_FIRST_MS * 2 ** Math.min(watched.failures++, 16));
    watched.notBeforeMs = clock.monotonicMs() + waitMs;
    logger.debug("segment duty postponed", { partition: s.partitionKey, segment: s.key, code: codeOf(error), waitMs });
  }
}
/** However short the grace: readers learn of the object through their watch within this, ms. */
const MIN_GRACE_SEEN_MS = 500;

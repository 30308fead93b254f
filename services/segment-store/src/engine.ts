import { join } from "node:path";
import { crc32c } from "@sluice/codec";
import { journalSalt } from "@sluice/core/journal";
import { limits, SluiceError } from "@sluice/core/model";
import type { Timers } from "@sluice/core/model";
import { producerTables } from "@sluice/core/producer";
import { forgetTombstones, type ReplicaMutants } from "@sluice/core/replica";
import type { Clock, Logger } from "@sluice/runtime";
import type { Disk } from "./disk/disk.ts";
import { hasFailedMarker, writeFailedMarker } from "./disk/format.ts";
import type { Format } from "./disk/format.ts";
import { failureFields, withRoom } from "./disk/no-space.ts";
import { encodeCheckpoint, writeCheckpoint } from "./journal/checkpoint.ts";
import { JournalFiles } from "./journal/files.ts";
import { Journal } from "./journal/journal.ts";
import type { JournalPlace } from "./journal/journal.ts";
import { restart } from "./journal/restart.ts";
import type { StoreMetrics } from "./metrics.ts";
import { JournalReader } from "./reader.ts";
import { ReplicaHost } from "./replica-host.ts";
import { SegmentReader } from "./segment-reader.ts";

export interface EngineLimits {
  readonly journalFileBytes: number;
  readonly spareFilesMax: number;
  readonly checkpointBytes: number;
  readonly readConcurrency: number;
  readonly readsPendingMax: number;
  readonly controlsPendingMax: number;
  readonly queuedBytesMax: number;
  readonly retryBatchesKept: number;
  readonly uncommittedBatchesMax: number;
  readonly segmentsMax: number;
  readonly tombstonesMax: number;
}
export const engineLimits: EngineLimits = {
  journalFileBytes: limits.journalFileBytes,
  spareFilesMax: 4,
  checkpointBytes: 256 * 1024 * 1024,
  readConcurrency: 2,
  readsPendingMax: 1024,
  controlsPendingMax: 1024,
  queuedBytesMax: 64 * 1024 * 1024,
  retryBatchesKept: 4096,
  uncommittedBatchesMax: 65_536,
  segmentsMax: 200_000,
  tombstonesMax: 50_000,
};
export interface EngineOptions {
  readonly disk: Disk;
  readonly folder: string;
  readonly format: Format;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly timers: Timers;
  readonly metrics: StoreMetrics;
  readonly limits: EngineLimits;
  /** While it opens: its first write waits for room. */
  readonly onNoSpace?: () => void;
  /** Planted bugs, for tests alone. */
  readonly mutants?: ReplicaMutants;
}

/** The storage engine: machine, journal and reader over one folder. Knows nothing of links, calls or the cluster. */
export class Engine {
  readonly host: ReplicaHost;
  readonly reader: SegmentReader;
  readonly journalReader: JournalReader;
  readonly files: JournalFiles;
  readonly #options: EngineOptions;
  readonly #journal: Journal;
  /** Where the newest durable checkpoint stands: files before it hold nothing but live batches. */
  #checkpointFile: number;
  #writtenSinceCheckpoint = 0;
  #checkpointing: Promise<void> | undefined;

  private constructor(options: EngineOptions, files: JournalFiles, restarted: Awaited<ReturnType<typeof restart>>, salt: number) {
    const { clock, logger, metrics, timers, format } = options;
    this.#options = options;
    this.files = files;
    this.#checkpointFile = restarted.checkpoint?.fileNumber ?? 0;
    this.#writtenSinceCheckpoint = restarted.scanned.bytes;
    this.host = new ReplicaHost({
      state: restarted.state,
      locations: restarted.locations,
      clock,
      logger,
      metrics,
      controlsPendingMax: options.limits.controlsPendingMax,
      queuedBytesMax: options.limits.queuedBytesMax,
    });
    this.host.onFailed = (error) => this.#failed(error);
    if (options.onNoSpace !== undefined) this.host.onNoSpace = options.onNoSpace;
    this.#journal = new Journal(
      {
        files,
        crc32c,
        salt,
        clusterId: format.clusterId,
        incarnation: format.incarnation,
        clock,
        markMs: timers.journalMarkMs,
        groupBytesMax: limits.journalGroupBytesMax,
        fileBytes: options.limits.journalFileBytes,
        metrics: {
          group: (bytes, entries) => {
            metrics.group(bytes, entries);
            this.#wrote(bytes);
          },
          synced: (seconds) => metrics.synced(seconds),
        },
        listener: this.host,
      },
      restarted.place,
    );
    this.host.attach(this.#journal);
    this.journalReader = new JournalReader({
      files,
      locations: restarted.locations,
      crc32c,
      salt,
      concurrency: options.limits.readConcurrency,
      pendingMax: options.limits.readsPendingMax,
    });
    this.reader = new SegmentReader({ host: this.host, reader: this.journalReader, clock, logger, metrics });
  }

  static async open(options: EngineOptions): Promise<Engine> {
    const { disk, folder, format, logger } = options;
    const failed = await hasFailedMarker(disk, folder);
    if (failed) logger.error("the journal of this node has failed before: nothing here is trusted; replace the node", { folder });
    const salt = journalSalt(format.incarnation, crc32c);
    const files = new JournalFiles({
      disk,
      directory: join(folder, "journal"),
      fileBytes: options.limits.journalFileBytes,
      crc32c,
      salt,
      clusterId: format.clusterId,
      incarnation: format.incarnation,
      spareFilesMax: options.limits.spareFilesMax,
    });
    const restarted = await restart({
      disk,
      files,
      checkpoints: join(folder, "checkpoints"),
      crc32c,
      salt,
      replica: {
        incarnation: format.incarnation,
        firstSegmentNumber: format.firstSegmentNumber,
        producers: producerTables,
        crc32c,
        retryBatchesKept: options.limits.retryBatchesKept,
        uncommittedBatchesMax: options.limits.uncommittedBatchesMax,
        segmentsMax: options.limits.segmentsMax,
        ...(options.mutants !== undefined && { mutants: options.mutants }),
      },
      failed,
      logger,
    });
    const engine = new Engine(options, files, restarted, salt);
    if (!failed) await engine.#journal.mark();
    return engine;
  }

  get failed(): boolean {
    return this.host.state.failed;
  }
  get queuedBytes(): number {
    return this.#journal.queuedBytes;
  }
  get journal(): Journal {
    return this.#journal;
  }

  /** Writes the state of now to a checkpoint; journal files before it need no replay any more. */
  checkpoint(): Promise<void> {
    this.#checkpointing ??= this.#checkpoint().finally(() => {
      this.#checkpointing = undefined;
    });
    return this.#checkpointing;
  }
  async #checkpoint(): Promise<void> {
    const { disk, folder, clock, metrics, logger } = this.#options;
    if (this.#journal.failed || this.failed) return;
    this.#writtenSinceCheckpoint = 0;
    const began = clock.monotonicMs();
    let parts: Uint8Array[] = [];
    const place = await new Promise<JournalPlace | undefined>((resolve) => {
      this.#journal.atBoundary((at) => {
        if (at === undefined) return resolve(undefined);
        forgetTombstones(this.host.state, this.#options.limits.tombstonesMax);
        parts = encodeCheckpoint(at, this.host.checkpoint(), crc32c);
        resolve(at);
      });
    });
    // The group that ends at the boundary must be on disk before the checkpoint says so.
    const durable = place !== undefined && (await this.#journal.settledUpTo(place.lastLsn));
    if (this.#journal.failed) return;
    if (!durable) throw new SluiceError("DISK_FULL", "no room on the disk for the journal that a checkpoint ends");
    await withRoom("a checkpoint", () => writeCheckpoint(disk, join(folder, "checkpoints"), place, parts));
    this.#checkpointFile = place.fileNumber;
    const bytes = parts.reduce((n, p) => n + p.length, 0);
    metrics.checkpoint((clock.monotonicMs() - began) / 1000, bytes);
    logger.debug("checkpoint written", { lsn: place.lastLsn, bytes });
    await this.reclaim();
  }
  #wrote(bytes: number): void {
    this.#writtenSinceCheckpoint += bytes;
    if (this.#writtenSinceCheckpoint < this.#options.limits.checkpointBytes || this.#checkpointing !== undefined) return;
    this.checkpoint().catch((err: unknown) => this.#options.logger.error("checkpoint failed", failureFields(err)));
  }

  /** Files behind the checkpoint in which nothing lives are free again. Returns how many. */
  async reclaim(): Promise<number> {
    let freed = 0;
    for (const f of this.files.inUse()) {
      if (f.fileNumber >= this.#checkpointFile || f.fileNumber === this.#journal.currentFile) break;
      if (this.host.locations.liveBytes(f.fileNumber) > 0) continue;
      await this.files.release(f.fileNumber);
      freed++;
    }
    if (freed > 0) this.#options.logger.info("journal files freed", { files: freed });
    return freed;
  }
  /** Files that a compaction may empty: behind the checkpoint, not written any more. */
  compactable(): readonly number[] {
    return this.files
      .inUse()
      .filter((f) => f.fileNumber < this.#checkpointFile && f.fileNumber !== this.#journal.currentFile)
      .map((f) => f.fileNumber);
  }

  #failed(cause: unknown): void {
    this.#options.logger.error("journal failed: this node answers no append and no vote any more", { err: cause });
    void this.#markFailed(String(cause));
  }
  async #markFailed(reason: string): Promise<void> {
    const { disk, folder, logger } = this.#options;
    try {
      await writeFailedMarker(disk, folder, reason);
    } catch (err) {
      logger.error("the marker of the failed journal could not be written: do not start this node again, format it anew", { err });
    }
  }

  /** What is queued is written, then a checkpoint makes the next start short. */
  async close(): Promise<void> {
    // A full disk is not waited for.
    const { clock, timers } = this.#options;
    const over = new AbortController();
    if (!this.failed && !this.host.state.diskFull && !this.#journal.waitsForRoom)
      await Promise.race([this.checkpoint(), clock.sleep(timers.shutdownMs, over.signal)]).catch(() => undefined);
    over.abort();
    await this.#journal.close();
    await this.files.close();
  }
  /** As a crash would leave it, but for the open files. */
  async abandon(): Promise<void> {
    await this.#journal.close();
    await this.files.close();
  }
}

import { FILE_HEADER_BYTES, GROUP_HEADER_BYTES, padded } from "@sluice/core/journal";
import type { JournalEntry } from "@sluice/core/journal";
import type { Crc32c } from "@sluice/core/log";
import { limits } from "@sluice/core/model";
import type { Clock, Timer } from "@sluice/runtime";
import { isNoSpace } from "../disk/no-space.ts";
import type { JournalFile, JournalFiles } from "./files.ts";
import { GroupBuilder } from "./group.ts";
import type { BuiltGroup } from "./group.ts";

export interface JournalPlace {
  readonly fileNumber: number;
  readonly at: number;
  readonly lastLsn: number;
  /** Above every LSN that was ever used, torn ones included. */
  readonly highestLsn: number;
}
export interface JournalListener {
  /** Where an entry was put; called before it is durable, in order. */
  placed(entry: JournalEntry, fileNumber: number, at: number, bytes: number): void;
  /** All entries with a sequence up to this one are on disk. `position` lies after the group that made it so. */
  durable(sequence: number): void;
  /** A write or a sync failed: nothing more will be written. Once. */
  failed(error: unknown): void;
  /** The disk is full: the write is tried again until there is room (nothing of it was acknowledged). */
  noSpace(): void;
}
export interface JournalMetrics {
  group(bytes: number, entries: number): void;
  synced(seconds: number): void;
}
export interface JournalOptions {
  readonly files: JournalFiles;
  readonly crc32c: Crc32c;
  readonly salt: number;
  readonly clusterId: string;
  readonly incarnation: string;
  readonly clock: Clock;
  readonly markMs: number;
  readonly groupBytesMax: number;
  readonly fileBytes: number;
  readonly metrics: JournalMetrics;
  readonly listener: JournalListener;
}
interface Queued {
  readonly sequence: number;
  readonly entry: JournalEntry;
  readonly bytes: number;
  readonly onDurable: (() => void) | undefined;
}
/** What an entry without batches counts in the queue. */
const SMALL_ENTRY_BYTES = 512;
/**
 * Where little is written at a time, blocks are made ahead of the head: the sync of a file that grows must also write the file system's own journal,
 * which takes longer than the data. Under load that would only double the bytes, and one sync carries many appends.
 */
const AHEAD_BYTES = 1024 * 1024;
const AHEAD_BELOW_GROUP_BYTES = 64 * 1024;
const AHEAD_FROM_BYTES = 128 * 1024;
const ZEROS = new Uint8Array(AHEAD_BYTES);
/** Between two tries of a write that found the disk full. */
const NO_SPACE_RETRY_MS = 200;

/**
 * The writer. One flush in flight; what arrives meanwhile is the next group:
 *
 *   write() ─► queue ─► group (at most 4 MiB, or one larger entry) ─► synchronous writev ─► durable
 *                ▲                                                                           │
 *                └──────────────────── next group, when the queue is not empty ──────────────┘
 *
 * When it falls idle, an empty group (a mark) follows within `markMs`, so that `syncedUpTo` covers the last one.
 */
export class Journal {
  readonly #options: JournalOptions;
  readonly #builder: GroupBuilder;
  #queue: Queued[] = [];
  #queuedBytes = 0;
  #flushing = false;
  #scheduled = false;
  #failed = false;
  #closing = false;
  #closed = false;
  #file: JournalFile | undefined;
  #fileNumber: number;
  #at: number;
  #lsn: number;
  #previousLsn: number;
  #syncedUpTo: number;
  #lastWasMark = true;
  #markTimer: Timer | undefined;
  #idle: (() => void)[] = [];
  #waitsForRoom = false;
  readonly #roomWait = new AbortController();
  #waiting: { readonly lsn: number; readonly resolve: () => void }[] = [];
  /** Asked for by a checkpoint: called when a group has taken everything that was queued. */
  #boundary: ((group: JournalPlace | undefined) => void) | undefined;

  constructor(options: JournalOptions, start: JournalPlace) {
    this.#options = options;
    this.#builder = new GroupBuilder(options.crc32c, options.salt);
    this.#file = options.files.get(start.fileNumber);
    if (this.#file !== undefined) this.#file.used = start.at;
    this.#fileNumber = start.fileNumber;
    this.#at = start.at;
    this.#lsn = Math.max(start.highestLsn, start.lastLsn);
    this.#previousLsn = start.lastLsn;
    this.#syncedUpTo = start.lastLsn;
  }
  get queuedBytes(): number {
    return this.#queuedBytes;
  }
  get failed(): boolean {
    return this.#failed;
  }
  get currentFile(): number {
    return this.#fileNumber;
  }
  get lsn(): number {
    return this.#previousLsn;
  }

  /** Queues an entry; it leaves with all others of this turn. Bounded by the callers: credit of links, concurrent control calls. */
  write(sequence: number, entry: JournalEntry, onDurable?: () => void): void {
    if (this.#failed) return;
    const bytes = entry.kind === "append" ? entry.payload.length : SMALL_ENTRY_BYTES;
    this.#queue.push({ sequence, entry, bytes, onDurable });
    this.#queuedBytes += bytes;
    this.#schedule();
  }
  #schedule(): void {
    if (this.#flushing || this.#scheduled) return;
    this.#scheduled = true;
    this.#options.clock.afterTurn(() => {
      this.#scheduled = false;
      void this.#run();
    });
  }

  /** Writes a mark now: after a restart, so that what the scan accepted is covered. */
  async mark(): Promise<void> {
    this.#lastWasMark = false;
    this.#markTimer?.cancel();
    await this.#run();
  }
  /** A write found the disk full and is tried again until there is room. */
  get waitsForRoom(): boolean {
    return this.#waitsForRoom;
  }
  /** Resolves when nothing is queued or in flight, or when what is waits for room on a full disk: nobody knows for how long. */
  async settled(): Promise<void> {
    if (this.#failed || this.#waitsForRoom || (!this.#flushing && this.#queue.length === 0)) return;
    await new Promise<void>((resolve) => this.#idle.push(resolve));
  }
  /** True once the group with this LSN is on disk; false when the journal has failed, or waits for room. */
  async settledUpTo(lsn: number): Promise<boolean> {
    if (!this.#isWaited(lsn)) return this.#syncedUpTo >= lsn;
    await new Promise<void>((resolve) => this.#waiting.push({ lsn, resolve }));
    return this.#syncedUpTo >= lsn;
  }
  #isWaited(lsn: number): boolean {
    return this.#syncedUpTo < lsn && !this.#failed && !this.#waitsForRoom;
  }
  #wake(): void {
    const still = this.#waiting.filter((w) => this.#isWaited(w.lsn));
    for (const w of this.#waiting) if (!still.includes(w)) w.resolve();
    this.#waiting = still;
  }
  /**
   * Calls back at a point where every entry written so far is in a group, and none is half way: with the place after that group, before it is durable.
   * undefined = the journal waits for room, or has failed.
   */
  atBoundary(fn: (place: JournalPlace | undefined) => void): void {
    if (this.#waitsForRoom || this.#failed) return fn(undefined);
    this.#boundary = fn;
    this.#lastWasMark = false;
    if (!this.#flushing) void this.#run();
  }
  async close(): Promise<void> {
    this.#closing = true;
    await this.settled();
    // On a full disk: the try under way ends first, so that nothing is written behind the end.
    this.#roomWait.abort();
    while (this.#flushing && !this.#closed) await new Promise<void>((resolve) => this.#idle.push(resolve));
    this.#closed = true;
    this.#markTimer?.cancel();
  }

  async #run(): Promise<void> {
    if (this.#flushing || this.#failed || this.#closed) return;
    if (this.#queue.length === 0 && this.#boundary === undefined && this.#lastWasMark) return;
    this.#flushing = true;
    this.#markTimer?.cancel();
    try {
      do {
        const bytes = await this.#flush();
        if (bytes < AHEAD_BELOW_GROUP_BYTES && this.#file !== undefined) await this.#makeBlocks(this.#file);
      } while (this.#queue.length > 0 || this.#boundary !== undefined);
      this.#armMark();
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#flushing = false;
      if (this.#queue.length === 0) this.#wakeIdle();
    }
  }
  #armMark(): void {
    if (this.#lastWasMark || this.#closed) return;
    this.#markTimer = this.#options.clock.setTimer(this.#options.markMs, () => void this.#run(), { unref: true });
  }
  #fail(error: unknown): void {
    if (this.#failed) return;
    this.#failed = true;
    this.#queue = [];
    this.#queuedBytes = 0;
    this.#waitsForRoom = false;
    this.#giveUpBoundary();
    this.#options.listener.failed(error);
    this.#wake();
  }

  /** Zeros ahead of the head. Only here, between two groups: nothing else writes. */
  async #makeBlocks({ file, capacity }: JournalFile): Promise<void> {
    const from = file.sizeBytes;
    const bytes = Math.min(AHEAD_BYTES, capacity - from);
    if (from - this.#at >= AHEAD_FROM_BYTES || bytes <= 0) return;
    try {
      await file.writeDurably([ZEROS.subarray(0, bytes)], from);
    } catch (error) {
      // No room for more than is needed: the groups will find out when it is needed. Only zeros were at stake.
      if (!isNoSpace(error)) throw error;
    }
  }

  /** Bytes of the group. */
  async #flush(): Promise<number> {
    const { metrics, listener } = this.#options;
    const { sequence, callbacks } = this.#takeQueue();
    const { file, position, group } = await this.#buildGroup();
    for (const e of group.entries) listener.placed(e.entry, file.fileNumber, this.#at + e.at, e.bytes);
    this.#at += group.bytes;
    file.used = this.#at;
    const boundary = this.#boundary;
    if (boundary !== undefined && this.#queue.length === 0) {
      // The state of this moment is exactly what the journal gives up to here: no entry is queued.
      this.#boundary = undefined;
      boundary({ fileNumber: file.fileNumber, at: this.#at, lastLsn: this.#lsn, highestLsn: this.#lsn });
    }
    await this.#toDisk(file, position, group);
    this.#syncedUpTo = this.#lsn;
    this.#lastWasMark = group.entries.length === 0;
    metrics.group(group.bytes, group.entries.length);
    if (sequence > 0) listener.durable(sequence);
    for (const fn of callbacks) fn();
    if (this.#waiting.length > 0) this.#wake();
    return group.bytes;
  }

  async #toDisk(file: JournalFile, position: number, group: BuiltGroup): Promise<void> {
    const { clock, metrics } = this.#options;
    const began = clock.monotonicMs();
    // Nothing of this group was acknowledged, so it may be written again, over itself, when there was no room. Any other failure may be the sync's, which
    // is never tried again.
    await this.#whileNoSpace(() => file.file.writeDurably(group.parts, position));
    metrics.synced((clock.monotonicMs() - began) / 1000);
  }
  /** Stopped on a full disk: what waits was never acknowledged, and the next start finds the journal as it is. */
  #giveUp(): Promise<never> {
    this.#closed = true;
    this.#wakeIdle();
    return Promise.withResolvers<never>().promise;
  }
  #giveUpBoundary(): void {
    const boundary = this.#boundary;
    this.#boundary = undefined;
    boundary?.(undefined);
  }
  #wakeIdle(): void {
    for (const resolve of this.#idle.splice(0)) resolve();
  }
  /** Tries again for as long as the disk is full; every other error is final. */
  async #whileNoSpace<T>(work: () => Promise<T>): Promise<T> {
    const { clock, listener } = this.#options;
    for (;;) {
      try {
        const done = await work();
        this.#waitsForRoom = false;
        return done;
      } catch (error) {
        if (!isNoSpace(error) || this.#closed) throw error;
        this.#waitsForRoom = true;
        listener.noSpace();
        this.#giveUpBoundary();
        this.#wake();
        if (this.#closing) return this.#giveUp();
        this.#wakeIdle();
        await clock.sleep(NO_SPACE_RETRY_MS, this.#roomWait.signal).catch(() => undefined);
      }
    }
  }

  /** Moves the head of the queue into the builder: the last sequence taken (0 = none), and who wants to know when it is durable. */
  #takeQueue(): { readonly sequence: number; readonly callbacks: readonly (() => void)[] } {
    const wholeQueue = this.#boundary !== undefined;
    const callbacks: (() => void)[] = [];
    let taken = 0;
    let sequence = 0;
    for (const q of this.#queue) {
      if (taken > 0 && !wholeQueue && this.#builder.bytes + q.bytes > this.#options.groupBytesMax) break;
      // A group must fit in a file whatever happens; only a single entry may have a file of its own.
      if (taken > 0 && this.#builder.bytes + q.bytes + 4 * limits.journalPadBytes > this.#options.fileBytes) break;
      this.#builder.add(q.entry);
      if (q.sequence > sequence) sequence = q.sequence;
      if (q.onDurable !== undefined) callbacks.push(q.onDurable);
      this.#queuedBytes -= q.bytes;
      taken++;
    }
    this.#queue.splice(0, taken);
    return { sequence, callbacks };
  }

  async #buildGroup(): Promise<{ file: JournalFile; position: number; group: BuiltGroup }> {
    const { files, clusterId, incarnation } = this.#options;
    const bytes = padded(GROUP_HEADER_BYTES + this.#builder.bytes);
    let file = this.#file;
    let fileHeader: Parameters<GroupBuilder["finish"]>[1];
    if (file === undefined || this.#at + bytes > file.capacity) {
      file = await this.#whileNoSpace(() => files.begin(this.#fileNumber + 1, bytes));
      this.#fileNumber = file.fileNumber;
      this.#file = file;
      this.#at = FILE_HEADER_BYTES;
      fileHeader = { fileNumber: file.fileNumber, fileBytes: file.capacity, clusterId, incarnation };
    }
    const previousLsn = this.#previousLsn;
    this.#lsn++;
    this.#previousLsn = this.#lsn;
    const header = { lsn: this.#lsn, previousLsn, syncedUpTo: this.#syncedUpTo, fileNumber: file.fileNumber };
    const group = this.#builder.finish(header, fileHeader);
    return { file, position: fileHeader === undefined ? this.#at : 0, group };
  }
}

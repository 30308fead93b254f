import { BatchCursor } from "@sluice/core/log";
import { codeOf, SluiceError, type Epoch } from "@sluice/core/model";
import type { Clock, Logger, Timer } from "@sluice/runtime";
import { failureFields } from "./disk/no-space.ts";
import type { Engine } from "./engine.ts";
import { fileOf } from "./journal/positions.ts";
import type { StoreMetrics } from "./metrics.ts";

export interface CompactorOptions {
  readonly engine: Engine;
  readonly logger: Logger;
  readonly metrics: StoreMetrics;
  readonly clock: Clock;
  /** How long a file waits: what is left in it may go by itself, and copying costs as much as appending. */
  readonly waitMs: number;
  /** Space is short: nothing waits. */
  readonly pressed: () => boolean;
}
/** A file is copied away when less than this share of it is still wanted ... */
export const COMPACT_BELOW_SHARE = 0.25;
/** ... and at once when so little is that copying it costs nothing. */
const COMPACT_AT_ONCE_SHARE = 1 / 64;
const RUN_BYTES = 512 * 1024;

/**
 * Gives journal space back. A file in which nothing lives is free at once; one of which little lives is emptied first, after a while: the rest is written
 * again at the head of the journal (as copies: a replay takes them for a move, not for appends), and the file is released when they are durable.
 */
export class Compactor {
  readonly #options: CompactorOptions;
  #running: Promise<void> | undefined;
  /** Files with little in them, and since when. */
  readonly #waiting = new Map<number, number>();
  #timer: Timer | undefined;
  readonly #stop = new AbortController();
  /** A full disk has been told of: it is not told again until a run went well. */
  #toldFull = false;

  constructor(options: CompactorOptions) {
    this.#options = options;
  }
  run(): Promise<void> {
    this.#running ??= this.#run().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  stop(): void {
    this.#stop.abort(new SluiceError("SHUTTING_DOWN", "the storage node stops"));
    this.#timer?.cancel();
  }

  async #run(): Promise<void> {
    const { engine } = this.#options;
    if (engine.failed || this.#stop.signal.aborted) return;
    try {
      await this.#compact();
      await engine.reclaim();
      this.#toldFull = false;
    } finally {
      this.#arm();
    }
  }
  async #compact(): Promise<void> {
    const { engine, logger } = this.#options;
    // Deletions are known to a restart from the journal; a checkpoint moves the line behind which files can be freed.
    await engine.checkpoint();
    for (const fileNumber of engine.compactable()) {
      const file = engine.files.get(fileNumber);
      const live = engine.host.locations.liveBytes(fileNumber);
      if (file === undefined || live === 0 || live >= file.capacity * COMPACT_BELOW_SHARE) {
        this.#waiting.delete(fileNumber);
        continue;
      }
      if (!this.#isDue(fileNumber, live / file.capacity)) continue;
      this.#waiting.delete(fileNumber);
      try {
        await this.#empty(fileNumber);
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        logger.warn("journal file not compacted", { file: fileNumber, ...failureFields(error) });
      }
    }
    const inUse = new Set(engine.compactable());
    for (const fileNumber of this.#waiting.keys()) if (!inUse.has(fileNumber)) this.#waiting.delete(fileNumber);
  }
  #isDue(fileNumber: number, share: number): boolean {
    const { clock, waitMs, pressed } = this.#options;
    if (share < COMPACT_AT_ONCE_SHARE || pressed()) return true;
    const now = clock.monotonicMs();
    const since = this.#waiting.get(fileNumber);
    if (since === undefined) this.#waiting.set(fileNumber, now);
    return since !== undefined && now - since >= waitMs;
  }
  #arm(): void {
    this.#timer?.cancel();
    if (this.#waiting.size === 0 || this.#stop.signal.aborted) return;
    const { clock, waitMs } = this.#options;
    this.#timer = clock.setTimer(waitMs, () => void this.runSoon(), { unref: true });
  }
  /** For callers that need not know: a failure is logged, and the next run tries again. */
  async runSoon(): Promise<void> {
    try {
      await this.run();
    } catch (error) {
      const isFull = codeOf(error) === "DISK_FULL";
      if (!isFull || !this.#toldFull) this.#options.logger.warn("journal not compacted", failureFields(error));
      this.#toldFull ||= isFull;
    }
  }

  async #empty(fileNumber: number): Promise<void> {
    const { engine, metrics, logger } = this.#options;
    const { host } = engine;
    let bytes = 0;
    for (const l of host.locations.segmentsIn(fileNumber)) {
      const ranges: [number, number][] = [];
      for (let i = 0; i < l.positions.length; i++) {
        if (fileOf(l.positions[i] as number) !== fileNumber) continue;
        ranges.push([l.offsets[i] as number, (l.offsets[i + 1] ?? Number.MAX_SAFE_INTEGER) - 1]);
      }
      for (const [first, last] of ranges) bytes += await this.#copy(l.segmentNumber, first, last);
      host.locations.leave(l.segmentNumber, fileNumber);
    }
    metrics.compacted(bytes);
    logger.info("journal file emptied", { file: fileNumber, bytes });
  }

  /** Writes the batches of [first, last] again. Resolves when they are durable. */
  async #copy(segmentNumber: number, first: number, last: number): Promise<number> {
    const { engine } = this.#options;
    const { host } = engine;
    const s = host.state.byNumber.get(segmentNumber);
    if (s === undefined || s.status === "DELETED") return 0;
    const upTo = Math.min(last, s.durableLast);
    const cursor = new BatchCursor();
    let next = first;
    let bytes = 0;
    while (next <= upTo) {
      const run = await engine.journalReader.read(s, next, upTo, RUN_BYTES);
      if (run.length === 0) break;
      cursor.reset(run);
      let end = next - 1;
      while (cursor.next()) end = cursor.header.lastOffset;
      await this.#write(s.number, s.id.epoch, next, end, s.lac, s.lastAppendMs, run);
      bytes += run.length;
      next = end + 1;
    }
    return bytes;
  }
  #write(
    segmentNumber: number,
    epoch: Epoch,
    firstOffset: number,
    lastOffset: number,
    lac: number,
    appendMs: number,
    payload: Uint8Array,
  ): Promise<void> {
    const { journal } = this.#options.engine;
    const { signal } = this.#stop;
    return new Promise((resolve, reject) => {
      if (journal.failed) return reject(new SluiceError("IO_FAILED", "the journal has failed"));
      // A full disk may keep it for as long as it is full: a stop does not wait.
      const onStop = (): void => reject(signal.reason as Error);
      if (signal.aborted) return onStop();
      signal.addEventListener("abort", onStop, { once: true });
      journal.write(
        0,
        { kind: "append", segmentNumber, epoch, firstOffset, lastOffset, lac, appendMs, recovery: false, copy: true, payload },
        () => {
          signal.removeEventListener("abort", onStop);
          resolve();
        },
      );
    });
  }
}

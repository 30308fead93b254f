import { statfs } from "node:fs/promises";
import { Repeater, type Clock, type Logger } from "@sluice/runtime";
import type { JournalFiles } from "./journal/files.ts";
import type { ReplicaHost } from "./replica-host.ts";

/** Share of the disk in use from which a node acts. */
export const pressure = {
  /** Owners of the largest open segments are asked to roll them: only sealed segments can be offloaded. */
  rollFrom: 0.6,
  /** Warned about; uploads come first. */
  warnFrom: 0.85,
  /** Appends are refused with a retriable error; reads, recovery and uploads go on. */
  refuseFrom: 0.95,
} as const;
/** A segment below this is not worth a roll, bytes. */
const ROLL_BYTES_MIN = 1024 * 1024;
/** Between two rolls that a node asks for, ms. */
const ROLL_PAUSE_MS = 5_000;

export interface DiskPressureOptions {
  readonly folder: string;
  /** 0 = the whole disk. */
  readonly capacityBytes: number;
  readonly files: JournalFiles;
  readonly host: ReplicaHost;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly intervalMs: number;
  /** Space has become short. */
  readonly onShort?: () => void;
  /** Bytes of the file system; for tests a fixed answer. */
  readonly space?: () => Promise<{ readonly totalBytes: number; readonly freeBytes: number }>;
}
export type PressureLevel = "low" | "roll" | "warn" | "refuse";

/** Watches the space and acts before it is gone. Free journal files count as free. */
export class DiskPressure {
  readonly #options: DiskPressureOptions;
  readonly #repeater: Repeater;
  #rolledAtMs = Number.NEGATIVE_INFINITY;
  level: PressureLevel = "low";
  capacityBytes = 0;
  freeBytes = 0;

  constructor(options: DiskPressureOptions) {
    this.#options = options;
    const { clock, intervalMs, logger } = options;
    const onError = (err: unknown): void => logger.warn("disk space not known", { err });
    this.#repeater = new Repeater({ clock, intervalMs, work: () => this.check(), onError });
  }
  async start(): Promise<void> {
    await this.check();
    this.#repeater.start();
  }
  stop(): void {
    this.#repeater.stop();
  }
  /** From the warning on: uploads come first. */
  get isHigh(): boolean {
    return this.level === "warn" || this.level === "refuse";
  }
  /** The disk refused a write: no need to look. */
  full(): void {
    this.#enter("refuse");
  }

  async check(): Promise<void> {
    const { files, capacityBytes } = this.#options;
    const disk = await (this.#options.space ?? (() => spaceOf(this.#options.folder)))();
    const spare = files.spareBytes;
    const used = files.totalBytes - spare;
    this.capacityBytes = capacityBytes === 0 ? disk.totalBytes : Math.min(capacityBytes, disk.totalBytes);
    this.freeBytes = Math.max(0, Math.min(disk.freeBytes + spare, capacityBytes === 0 ? Number.MAX_SAFE_INTEGER : capacityBytes - used));
    const share = this.capacityBytes === 0 ? 0 : 1 - this.freeBytes / this.capacityBytes;
    this.#enter(
      share >= pressure.refuseFrom ? "refuse" : share >= pressure.warnFrom ? "warn" : share >= pressure.rollFrom ? "roll" : "low",
    );
    if (share >= pressure.rollFrom) this.#askRoll();
  }

  #enter(level: PressureLevel): void {
    const { host, logger } = this.#options;
    if (level === this.level) return;
    const fields = { from: this.level, to: level, freeBytes: this.freeBytes, capacityBytes: this.capacityBytes };
    if (level === "refuse") logger.error("disk full: appends are refused", fields);
    else if (level === "warn") logger.warn("disk nearly full", fields);
    else logger.info("disk pressure", fields);
    const wasLow = this.level === "low";
    this.level = level;
    if (wasLow) this.#options.onShort?.();
    host.setDiskFull(level === "refuse");
  }

  /** One at a time: the largest segment that is open here. */
  #askRoll(): void {
    const { host, clock, logger } = this.#options;
    const now = clock.monotonicMs();
    if (now - this.#rolledAtMs < ROLL_PAUSE_MS) return;
    let largest;
    for (const s of host.state.byNumber.values())
      if (s.status === "OPEN" && s.sizeBytes >= ROLL_BYTES_MIN && !host.state.rollWanted.has(s.number))
        if (largest === undefined || s.sizeBytes > largest.sizeBytes) largest = s;
    if (largest === undefined) return;
    this.#rolledAtMs = now;
    logger.info("segment asked to roll", {
      partition: largest.partitionKey,
      segment: largest.key,
      bytes: largest.sizeBytes,
      cause: "disk",
    });
    host.askRoll(largest.number);
  }
}

/** As `df` counts: the share of root's reserve is no space. */
async function spaceOf(folder: string): Promise<{ totalBytes: number; freeBytes: number }> {
  const s = await statfs(folder);
  const used = (s.blocks - s.bfree) * s.bsize;
  const free = s.bavail * s.bsize;
  return { totalBytes: used + free, freeBytes: free };
}

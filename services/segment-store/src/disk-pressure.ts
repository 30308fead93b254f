import { statfs } from "node:fs/promises";
import { codeOf } from "@sluice/core/model";
import { Repeater, type Clock, type Logger } from "@sluice/runtime";
import type { JournalFiles } from "./journal/files.ts";
import type { ReplicaHost } from "./replica-host.ts";

/** Share of the disk in use from which a node acts. */
export const pressure = {
  /** Owners of the largest open segments are asked to roll them: only sealed segments can be offloaded. */
  rollFrom: 0.6,
  /** Warned about; uploads come first. */
  warnFrom: 0.85,
  /** Appends are refused with a retriable error; reads, recovery and uploads go on ... */
  refuseFrom: 0.95,
  /** ... until less is in use: at one mark alone a node would open and close with every file that an upload frees. */
  acceptBelow: 0.94,
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
  /** A write waits for room, whatever the counts of the file system say (quota, inodes). */
  readonly waitsForRoom?: () => boolean;
  /** Called at each look: tells the cluster whether this node is full. What failed is told at the next look. */
  readonly tellFull?: (full: boolean) => Promise<void>;
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
    return this.level === "warn" || this.isFull;
  }
  /** Appends and new segments are refused. */
  get isFull(): boolean {
    return this.level === "refuse";
  }
  /** For a person. */
  toString(): string {
    const room = `${this.freeBytes} of ${this.capacityBytes} bytes free`;
    return this.isFull ? `disk full: appends and new segments are refused, ${room}` : room;
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
    this.#enter(this.#levelOf(share));
    if (share >= pressure.rollFrom) this.#askRoll();
    await this.#tell();
  }
  #levelOf(share: number): PressureLevel {
    const refuseFrom = this.isFull ? pressure.acceptBelow : pressure.refuseFrom;
    if (share >= refuseFrom || this.#options.waitsForRoom?.() === true) return "refuse";
    return share >= pressure.warnFrom ? "warn" : share >= pressure.rollFrom ? "roll" : "low";
  }
  async #tell(): Promise<void> {
    try {
      await this.#options.tellFull?.(this.isFull);
    } catch (error) {
      this.#options.logger.debug("the cluster could not be told of the disk", { isFull: this.isFull, code: codeOf(error) });
    }
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
    host.setDiskFull(this.isFull);
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

import { FILE_HEADER_BYTES, scanJournal } from "@sluice/core/journal";
import type { JournalEntry, ScanEnd } from "@sluice/core/journal";
import { BatchCursor } from "@sluice/core/log";
import type { Crc32c } from "@sluice/core/log";
import { createReplica, finishReplay, replay } from "@sluice/core/replica";
import type { ReplicaOptions, ReplicaState } from "@sluice/core/replica";
import type { Logger } from "@sluice/runtime";
import type { Disk } from "../disk/disk.ts";
import { readCheckpoint } from "./checkpoint.ts";
import type { JournalFile, JournalFiles } from "./files.ts";
import type { JournalPlace } from "./journal.ts";
import { LocationTable } from "./locations.ts";

export interface RestartOptions {
  readonly disk: Disk;
  readonly files: JournalFiles;
  readonly checkpoints: string;
  readonly crc32c: Crc32c;
  readonly salt: number;
  readonly replica: ReplicaOptions;
  /** The marker of a failed journal is there. */
  readonly failed: boolean;
  readonly logger: Logger;
}
export interface Restarted {
  readonly state: ReplicaState;
  readonly locations: LocationTable;
  readonly place: JournalPlace;
  /** Of the checkpoint that was used; undefined = none. */
  readonly checkpoint: JournalPlace | undefined;
  readonly scanned: ScanEnd;
}
const WINDOW_BYTES = 4 * 1024 * 1024;

/**
 * The state after a restart: newest checkpoint, then the journal from there. Ends with a sync of every file that was scanned, before any vote or ok: a
 * process that was killed may have left bytes in the page cache alone.
 */
export async function restart(options: RestartOptions): Promise<Restarted> {
  const { disk, files, crc32c, salt, logger } = options;
  await files.open();
  const { checkpoint, damaged } = await readCheckpoint(disk, options.checkpoints, crc32c);
  if (damaged > 0) logger.error("checkpoint damaged, using an older one", { damaged, lsn: checkpoint?.place.lastLsn ?? 0 });
  const state = createReplica(options.replica);
  const locations = new LocationTable();
  for (const entry of checkpoint?.entries ?? []) restoreEntry(state, locations, entry);

  const all = files.inUse();
  const first = all[0];
  const place = checkpoint?.place ?? { fileNumber: first?.fileNumber ?? 0, at: FILE_HEADER_BYTES, lastLsn: 0, highestLsn: 0 };
  const toScan = all.filter((f) => f.fileNumber >= place.fileNumber);
  const visitor = {
    entry(entry: JournalEntry, fileNumber: number, at: number, length: number): void {
      replay(state, entry);
      locate(locations, entry, fileNumber, at, length);
      if (entry.kind === "delete") locations.drop(entry.segmentNumber);
    },
    unknown(): void {
      logger.error("journal damaged: acknowledged entries cannot be read, copies that were changing are not trusted");
      replay(state, "unknown");
    },
  };
  // Files without their checkpoint: what the reused ones held is not known.
  if (checkpoint === undefined && damaged > 0) visitor.unknown();
  const scanned = await drive(
    toScan,
    scanJournal(
      toScan.map((f) => ({ fileNumber: f.fileNumber, bytes: f.file.sizeBytes })),
      { fileNumber: place.fileNumber, at: place.at, previousLsn: place.lastLsn },
      crc32c,
      salt,
      visitor,
    ),
  );
  await files.discardAfter(scanned.fileNumber);
  for (const f of toScan) if (files.get(f.fileNumber) !== undefined) await f.file.sync();
  finishReplay(state, options.failed);
  for (const f of all) f.used = f.fileNumber === scanned.fileNumber ? scanned.at : f.file.sizeBytes;
  logger.info("journal read", {
    segments: state.byNumber.size,
    checkpointLsn: checkpoint?.place.lastLsn ?? 0,
    lsn: scanned.lastLsn,
    groups: scanned.groups,
    bytes: scanned.bytes,
    torn: scanned.torn,
    unknownGroups: scanned.unknownGroups,
  });
  return {
    state,
    locations,
    place: { fileNumber: scanned.fileNumber, at: scanned.at, lastLsn: scanned.lastLsn, highestLsn: scanned.highestLsn },
    checkpoint: checkpoint?.place,
    scanned,
  };
}

function restoreEntry(state: ReplicaState, locations: LocationTable, entry: JournalEntry): void {
  if (entry.kind === "segment-index") locations.restore(entry);
  else replay(state, entry);
}

const cursor = new BatchCursor();
/** Notes where an append lies. */
export function locate(locations: LocationTable, entry: JournalEntry, fileNumber: number, at: number, bytes: number): void {
  if (entry.kind !== "append") return;
  if (entry.copy === true) {
    locations.move(entry.segmentNumber, entry.firstOffset, entry.lastOffset, fileNumber, at, bytes);
    return;
  }
  let maxTimestamp = -1;
  cursor.reset(entry.payload);
  while (cursor.next()) if (cursor.header.maxTimestamp > maxTimestamp) maxTimestamp = cursor.header.maxTimestamp;
  locations.add(entry.segmentNumber, entry.firstOffset, maxTimestamp, fileNumber, at, bytes);
}

/** Answers the reads of a scan from windows of a few megabytes. */
async function drive(files: readonly JournalFile[], scan: ReturnType<typeof scanJournal>): Promise<ScanEnd> {
  const byNumber = new Map(files.map((f) => [f.fileNumber, f]));
  let window = new Uint8Array(0);
  let windowFile = -1;
  let windowAt = 0;
  let step = scan.next();
  while (step.done !== true) {
    const { fileNumber, at, length } = step.value;
    if (fileNumber !== windowFile || at < windowAt || at + length > windowAt + window.length) {
      const f = byNumber.get(fileNumber);
      const bytes = new Uint8Array(Math.max(length, Math.min(WINDOW_BYTES, (f?.file.sizeBytes ?? 0) - at)));
      const n = f === undefined ? 0 : await f.file.read(bytes, at);
      window = bytes.subarray(0, n);
      windowFile = fileNumber;
      windowAt = at;
    }
    step = scan.next(window.subarray(at - windowAt, at - windowAt + length));
  }
  return step.value;
}

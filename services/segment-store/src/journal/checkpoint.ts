import { join } from "node:path";
import { decodeEntry, encodeEntryHead } from "@sluice/core/journal";
import type { JournalEntry } from "@sluice/core/journal";
import type { Crc32c } from "@sluice/core/log";
import type { Disk } from "../disk/disk.ts";
import type { JournalPlace } from "./journal.ts";

/**
 * A checkpoint file: the state of everything as of one group, so that a restart reads the journal from there.
 *
 *   0   u32  magic "SLCP"     4   u32  version
 *   8   f64  LSN of the group  16 f64  file number    24 f64  place after the group
 *   32  f64  bytes of entries  40 u32  entries        44 u32  CRC32C of bytes 0 to 43
 *   48       entries (each with its own CRC), as in the journal
 *
 * Named by LSN. The newest two are kept: when the newest cannot be read, the one before it and a longer scan do.
 */
const MAGIC = 0x50434c53;
const VERSION = 1;
const HEADER_BYTES = 48;
const KEPT = 2;
const NAME = /^(\d{16})\.checkpoint$/;

export interface Checkpoint {
  readonly place: JournalPlace;
  readonly entries: readonly JournalEntry[];
}

/** `entries` are encoded at once: the state that they show must not move before this returns. */
export function encodeCheckpoint(place: JournalPlace, entries: Iterable<JournalEntry>, crc32c: Crc32c): Uint8Array[] {
  const parts: Uint8Array[] = [];
  let bytes = 0;
  let count = 0;
  for (const entry of entries) {
    const head = encodeEntryHead(entry, crc32c);
    parts.push(head);
    bytes += head.length;
    count++;
  }
  const header = new Uint8Array(HEADER_BYTES);
  const view = new DataView(header.buffer);
  view.setUint32(0, MAGIC, true);
  view.setUint32(4, VERSION, true);
  view.setFloat64(8, place.lastLsn, true);
  view.setFloat64(16, place.fileNumber, true);
  view.setFloat64(24, place.at, true);
  view.setFloat64(32, bytes, true);
  view.setUint32(40, count, true);
  view.setUint32(44, crc32c(header.subarray(0, 44)), true);
  return [header, ...parts];
}

/** undefined = damaged. */
export function decodeCheckpoint(bytes: Uint8Array, crc32c: Crc32c): Checkpoint | undefined {
  if (bytes.length < HEADER_BYTES) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getUint32(0, true) !== MAGIC || view.getUint32(4, true) !== VERSION) return undefined;
  if (view.getUint32(44, true) !== crc32c(bytes.subarray(0, 44))) return undefined;
  const count = view.getUint32(40, true);
  if (bytes.length !== HEADER_BYTES + view.getFloat64(32, true)) return undefined;
  const entries: JournalEntry[] = [];
  let at = HEADER_BYTES;
  for (let i = 0; i < count; i++) {
    const entry = decodeEntry(bytes, at, bytes.length, crc32c);
    if (entry === undefined) return undefined;
    entries.push(entry);
    at += view.getUint32(at + 4, true);
  }
  if (at !== bytes.length) return undefined;
  const lastLsn = view.getFloat64(8, true);
  return { place: { lastLsn, highestLsn: lastLsn, fileNumber: view.getFloat64(16, true), at: view.getFloat64(24, true) }, entries };
}

export async function writeCheckpoint(disk: Disk, directory: string, place: JournalPlace, parts: readonly Uint8Array[]): Promise<void> {
  await disk.replaceWhole(join(directory, `${String(place.lastLsn).padStart(16, "0")}.checkpoint`), parts);
  const names = (await disk.list(directory)).filter((n) => NAME.test(n));
  for (const old of names.slice(0, -KEPT)) await disk.remove(join(directory, old));
}

/** The newest that can be read. `damaged` = a newer one could not. */
export async function readCheckpoint(
  disk: Disk,
  directory: string,
  crc32c: Crc32c,
): Promise<{ readonly checkpoint: Checkpoint | undefined; readonly damaged: number }> {
  let damaged = 0;
  for (const name of (await disk.list(directory)).filter((n) => NAME.test(n)).reverse()) {
    const bytes = await disk.readWhole(join(directory, name));
    const checkpoint = bytes === undefined ? undefined : decodeCheckpoint(bytes, crc32c);
    if (checkpoint !== undefined) return { checkpoint, damaged };
    damaged++;
  }
  return { checkpoint: undefined, damaged };
}

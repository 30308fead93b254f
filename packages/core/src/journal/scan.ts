import type { Crc32c } from "../log/index.ts";
import { limits } from "../model/index.ts";
import { decodeEntry } from "./entry-codec.ts";
import type { JournalEntry } from "./entry.ts";
import { decodeGroupHeader, FILE_HEADER_BYTES, GROUP_HEADER_BYTES, groupBytes } from "./format.ts";
import type { GroupHeader } from "./format.ts";

/**
 * The scan of a restart. It walks the groups in order and judges what it cannot read:
 *
 *   - no group that follows the last one: old data of a reused file, or nothing. If nothing later is found either, the journal ends here.
 *   - a bad group that a later one does not follow (its `previousLsn` is the one before): torn by an earlier crash, and left behind.
 *   - a bad group above the highest `syncedUpTo` that any later group claims: torn by a crash, never acknowledged. The journal ends here.
 *   - a bad group at or below it: it was acknowledged once. Its entries are *unknown*, never absent; the walk goes on behind it.
 *
 * Written as a generator that asks for bytes, so that it has no I/O: the host reads, tests hand over arrays.
 */
export interface ScanFile {
  readonly fileNumber: number;
  /** Bytes that can be read. */
  readonly bytes: number;
}
export interface ReadBytes {
  readonly fileNumber: number;
  readonly at: number;
  /** Fewer bytes may be given only at the end of the file. */
  readonly length: number;
}
export interface ScanStart {
  readonly fileNumber: number;
  readonly at: number;
  /** LSN of the group before `at`; 0 = none. It was durable. */
  readonly previousLsn: number;
}
export interface ScanVisitor {
  /** `at` and `length` as in the file `fileNumber`: of the whole entry, header included. The payload is a view that is only good during the call. */
  entry(entry: JournalEntry, fileNumber: number, at: number, length: number): void;
  /** Acknowledged entries are missing here. */
  unknown(): void;
}
export interface ScanEnd {
  /** Where the next group goes. */
  readonly fileNumber: number;
  readonly at: number;
  readonly lastLsn: number;
  /** LSN that the next group must exceed: also above one that was torn. */
  readonly highestLsn: number;
  readonly groups: number;
  readonly bytes: number;
  readonly unknownGroups: number;
  /** A group was torn by the crash. */
  readonly torn: boolean;
}
/** Planted bugs, for tests: the two ways in which M24 can be had. */
export interface ScanMutants {
  readonly unknownIsTorn?: boolean;
  readonly tornIsUnknown?: boolean;
}

interface Place {
  index: number;
  at: number;
}
interface Found {
  readonly header: GroupHeader;
  readonly place: Place;
}

export function* scanJournal(
  /** By file number, ascending. */
  files: readonly ScanFile[],
  start: ScanStart,
  crc32c: Crc32c,
  salt: number,
  visitor: ScanVisitor,
  mutants: ScanMutants = {},
): Generator<ReadBytes, ScanEnd, Uint8Array> {
  let index = Math.max(
    0,
    files.findIndex((f) => f.fileNumber === start.fileNumber),
  );
  let at = start.at;
  let lastLsn = start.previousLsn;
  let highestLsn = lastLsn;
  let groups = 0;
  let bytes = 0;
  let unknownGroups = 0;
  let torn = false;
  const end = (): ScanEnd => ({
    fileNumber: files[index]?.fileNumber ?? start.fileNumber,
    at,
    lastLsn,
    highestLsn,
    groups,
    bytes,
    unknownGroups,
    torn,
  });

  for (;;) {
    const next = yield* successor(files, { index, at }, lastLsn, crc32c, salt);
    let searchFrom: Place = { index, at };
    let missing = lastLsn + 1;
    if (next !== undefined) {
      const { header, place } = next;
      const file = files[place.index] as ScanFile;
      highestLsn = Math.max(highestLsn, header.lsn);
      const intact = yield* visitGroup(file, place.at, header, crc32c, visitor);
      if (intact) {
        index = place.index;
        at = place.at + groupBytes(header);
        lastLsn = header.lsn;
        groups++;
        bytes += groupBytes(header);
        continue;
      }
      missing = header.lsn;
      searchFrom = { index: place.index, at: place.at + limits.journalPadBytes };
      torn = true;
    }
    const later = yield* findLater(files, searchFrom, missing, crc32c, salt);
    if (later === undefined) {
      if (torn && mutants.tornIsUnknown === true) visitor.unknown();
      return end();
    }
    highestLsn = Math.max(highestLsn, later.header.lsn);
    if (later.header.previousLsn === lastLsn) {
      // A restart took the bad group for torn and went on without it, in the next file: its remains were not written over.
      torn = false;
      index = later.place.index;
      at = later.place.at;
      continue;
    }
    // A group is written when all before it are on disk, so a later one always vouches; the comparison is the rule all the same.
    if (later.header.syncedUpTo < missing || mutants.unknownIsTorn === true) {
      torn = true;
      return end();
    }
    unknownGroups++;
    torn = false;
    visitor.unknown();
    index = later.place.index;
    at = later.place.at;
    lastLsn = later.header.previousLsn;
  }
}

/** The group that follows `lastLsn`: at this place, or first in the next file. */
function* successor(
  files: readonly ScanFile[],
  place: Place,
  lastLsn: number,
  crc32c: Crc32c,
  salt: number,
): Generator<ReadBytes, Found | undefined, Uint8Array> {
  for (const p of [place, { index: place.index + 1, at: FILE_HEADER_BYTES }]) {
    const file = files[p.index];
    if (file === undefined || p.at + GROUP_HEADER_BYTES > file.bytes) continue;
    const head = yield { fileNumber: file.fileNumber, at: p.at, length: GROUP_HEADER_BYTES };
    const header = decodeGroupHeader(head, 0, crc32c, salt);
    if (header === undefined || header.fileNumber !== file.fileNumber) continue;
    if (header.previousLsn === lastLsn && header.lsn > lastLsn) return { header, place: p };
  }
  return undefined;
}

/** Gives the entries of a group to the visitor, up to the first that is damaged. True when all are there. */
function* visitGroup(
  file: ScanFile,
  at: number,
  header: GroupHeader,
  crc32c: Crc32c,
  visitor: ScanVisitor,
): Generator<ReadBytes, boolean, Uint8Array> {
  if (header.entryCount === 0) return header.entryBytes === 0;
  if (at + GROUP_HEADER_BYTES + header.entryBytes > file.bytes) return false;
  const body = yield { fileNumber: file.fileNumber, at: at + GROUP_HEADER_BYTES, length: header.entryBytes };
  const entries: { entry: JournalEntry; at: number; length: number }[] = [];
  let pos = 0;
  for (let i = 0; i < header.entryCount; i++) {
    const entry = decodeEntry(body, pos, body.length, crc32c);
    if (entry === undefined) break;
    const length = new DataView(body.buffer, body.byteOffset, body.byteLength).getUint32(pos + 4, true);
    entries.push({ entry, at: at + GROUP_HEADER_BYTES + pos, length });
    pos += length;
  }
  const intact = entries.length === header.entryCount && pos === header.entryBytes;
  // Entries before the damage in a group that turns out torn were never acknowledged: they must not come back. So a damaged group gives none.
  if (intact) for (const e of entries) visitor.entry(e.entry, file.fileNumber, e.at, e.length);
  return intact;
}

/** The next sound group with an LSN above `missing`, anywhere behind `from`: proof that the journal went on. */
function* findLater(
  files: readonly ScanFile[],
  from: Place,
  missing: number,
  crc32c: Crc32c,
  salt: number,
): Generator<ReadBytes, Found | undefined, Uint8Array> {
  for (let index = from.index; index < files.length; index++) {
    const file = files[index] as ScanFile;
    for (let at = index === from.index ? from.at : FILE_HEADER_BYTES; at < file.bytes; at += SEARCH_BYTES) {
      const length = Math.min(SEARCH_BYTES, file.bytes - at);
      const window = yield { fileNumber: file.fileNumber, at, length };
      for (let pos = 0; pos + GROUP_HEADER_BYTES <= window.length; pos += limits.journalPadBytes) {
        const header = decodeGroupHeader(window, pos, crc32c, salt);
        if (header !== undefined && header.fileNumber === file.fileNumber && header.lsn > missing)
          return { header, place: { index, at: at + pos } };
      }
    }
  }
  return undefined;
}
const SEARCH_BYTES = 1024 * 1024;

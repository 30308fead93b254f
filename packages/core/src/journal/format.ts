import type { Crc32c } from "../log/index.ts";
import { limits, SluiceError } from "../model/index.ts";

/**
 * The journal of a storage node: files of equal size, each
 *
 *   | file header | group | group | group | ... | zeros, or old data of a reused file |
 *   0             4096    every group starts at a multiple of 4 KiB
 *
 * and each group one flush: header, entries, zeros up to the next multiple. Little-endian. Numbers below are on disk for ever.
 */
export const JOURNAL_VERSION = 1;
export const FILE_HEADER_BYTES = limits.journalPadBytes;
/** What of the file header is checked: one sector, so that it is there whole or not at all. */
const FILE_HEADER_CRC_AT = 508;
const FILE_MAGIC = 0x464a_4c53; // "SLJF"
const GROUP_MAGIC = 0x474a_4c53; // "SLJG"
const NAME_BYTES_MAX = 128;

/**
 * File header.
 *   0   u32  magic "SLJF"        4   u16  version       6   u16  flags (0)
 *   8   f64  file number: grows by one for each file begun, never reused; a reused file gets a new one
 *   16  f64  size of the file in bytes
 *   24  u8   cipher (0 = none)   25  u24  0             28  u32  key id (0)
 *   32       cluster id, then incarnation: each u8 length and ASCII
 *   508 u32  CRC32C of bytes 0 to 507
 */
export interface FileHeader {
  readonly fileNumber: number;
  readonly fileBytes: number;
  readonly clusterId: string;
  readonly incarnation: string;
}

export const padded = (bytes: number): number => Math.ceil(bytes / limits.journalPadBytes) * limits.journalPadBytes;
export const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);

export function encodeFileHeader(h: FileHeader, crc32c: Crc32c): Uint8Array {
  const bytes = new Uint8Array(FILE_HEADER_BYTES);
  const view = viewOf(bytes);
  view.setUint32(0, FILE_MAGIC, true);
  view.setUint16(4, JOURNAL_VERSION, true);
  view.setFloat64(8, h.fileNumber, true);
  view.setFloat64(16, h.fileBytes, true);
  const at = writeAscii(bytes, 32, h.clusterId);
  writeAscii(bytes, at, h.incarnation);
  view.setUint32(FILE_HEADER_CRC_AT, crc32c(bytes.subarray(0, FILE_HEADER_CRC_AT)), true);
  return bytes;
}

/** undefined = no header, or a damaged one. Throws VERSION_MISMATCH for a sound header of another version or with a cipher. */
export function decodeFileHeader(bytes: Uint8Array, crc32c: Crc32c): FileHeader | undefined {
  if (bytes.length < 512) return undefined;
  const view = viewOf(bytes);
  if (view.getUint32(0, true) !== FILE_MAGIC) return undefined;
  if (view.getUint32(FILE_HEADER_CRC_AT, true) !== crc32c(bytes.subarray(0, FILE_HEADER_CRC_AT))) return undefined;
  const version = view.getUint16(4, true);
  if (version !== JOURNAL_VERSION)
    throw new SluiceError("VERSION_MISMATCH", `journal file of version ${version}, this program reads version ${JOURNAL_VERSION}`);
  if (view.getUint8(24) !== 0) throw new SluiceError("VERSION_MISMATCH", `journal file with cipher ${view.getUint8(24)}, none is known`);
  const clusterId = readAscii(bytes, 32);
  const incarnation = readAscii(bytes, clusterId.end);
  return {
    fileNumber: view.getFloat64(8, true),
    fileBytes: view.getFloat64(16, true),
    clusterId: clusterId.text,
    incarnation: incarnation.text,
  };
}

/** u8 length and ASCII. Returns the position after it. Throws INVALID_ARGUMENT on other characters and on more than 128. */
export function writeAscii(bytes: Uint8Array, at: number, text: string): number {
  checkAscii(text);
  bytes[at] = text.length;
  for (let i = 0; i < text.length; i++) bytes[at + 1 + i] = text.charCodeAt(i);
  return at + 1 + text.length;
}
export function checkAscii(text: string): void {
  if (text.length > NAME_BYTES_MAX)
    throw new SluiceError("INVALID_ARGUMENT", `a name of ${text.length} characters, limit ${NAME_BYTES_MAX}`);
  for (let i = 0; i < text.length; i++)
    if (text.charCodeAt(i) > 0x7e || text.charCodeAt(i) < 0x20)
      throw new SluiceError("INVALID_ARGUMENT", "a name holds characters that are not printable ASCII");
}
export function readAscii(bytes: Uint8Array, at: number): { readonly text: string; readonly end: number } {
  const length = bytes[at] ?? 0;
  let text = "";
  for (let i = 0; i < length; i++) text += String.fromCharCode(bytes[at + 1 + i] ?? 0);
  return { text, end: at + 1 + length };
}

/**
 * Group header.
 *   0   u32  magic "SLJG"    4   u16  version    6   u16  flags (0)
 *   8   f64  LSN: grows for ever, never reused
 *   16  f64  LSN of the group before this one (0 = the first). A group that a power cut tore leaves a number out, so "one less" would not do.
 *   24  f64  syncedUpTo: every group up to this LSN was on disk when this group was written
 *   32  f64  file number: tells a group of this file from old data of a reused one
 *   40  u32  bytes of the entries    44  u32  number of entries
 *   48  u32  CRC32C of bytes 0 to 47, begun with the journal's salt; each entry has its own
 *   52       zeros
 *
 * The salt is the CRC32C of the incarnation, which no client knows: a search for groups looks at places where a client's bytes may lie.
 */
export const GROUP_HEADER_BYTES = 64;
const GROUP_CRC_AT = 48;
export interface GroupHeader {
  readonly lsn: number;
  readonly previousLsn: number;
  readonly syncedUpTo: number;
  readonly fileNumber: number;
  readonly entryBytes: number;
  readonly entryCount: number;
}
export const groupBytes = (h: GroupHeader): number => padded(GROUP_HEADER_BYTES + h.entryBytes);

export function journalSalt(incarnation: string, crc32c: Crc32c): number {
  const bytes = new Uint8Array(NAME_BYTES_MAX + 1);
  return crc32c(bytes.subarray(0, writeAscii(bytes, 0, incarnation)));
}

export function encodeGroupHeader(h: GroupHeader, bytes: Uint8Array, at: number, crc32c: Crc32c, salt: number): void {
  const view = viewOf(bytes);
  view.setUint32(at, GROUP_MAGIC, true);
  view.setUint16(at + 4, JOURNAL_VERSION, true);
  view.setUint16(at + 6, 0, true);
  view.setFloat64(at + 8, h.lsn, true);
  view.setFloat64(at + 16, h.previousLsn, true);
  view.setFloat64(at + 24, h.syncedUpTo, true);
  view.setFloat64(at + 32, h.fileNumber, true);
  view.setUint32(at + 40, h.entryBytes, true);
  view.setUint32(at + 44, h.entryCount, true);
  view.setUint32(at + GROUP_CRC_AT, crc32c(bytes.subarray(at, at + GROUP_CRC_AT), salt), true);
  bytes.fill(0, at + GROUP_CRC_AT + 4, at + GROUP_HEADER_BYTES);
}

/** undefined = no sound group header at `at`. */
export function decodeGroupHeader(bytes: Uint8Array, at: number, crc32c: Crc32c, salt: number): GroupHeader | undefined {
  if (at + GROUP_HEADER_BYTES > bytes.length) return undefined;
  const view = viewOf(bytes);
  if (view.getUint32(at, true) !== GROUP_MAGIC || view.getUint16(at + 4, true) !== JOURNAL_VERSION) return undefined;
  if (view.getUint32(at + GROUP_CRC_AT, true) !== crc32c(bytes.subarray(at, at + GROUP_CRC_AT), salt)) return undefined;
  return {
    lsn: view.getFloat64(at + 8, true),
    previousLsn: view.getFloat64(at + 16, true),
    syncedUpTo: view.getFloat64(at + 24, true),
    fileNumber: view.getFloat64(at + 32, true),
    entryBytes: view.getUint32(at + 40, true),
    entryCount: view.getUint32(at + 44, true),
  };
}

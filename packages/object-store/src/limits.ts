import { limits } from "@sluice/core/model";

const KiB = 1024;
const MiB = 1024 * KiB;

/** Bounds of this package. What other packages must know too lies in `limits` of the core. */
export const objectStoreLimits = {
  /** Whole key, prefix of the URL included: S3 allows 1,024 bytes. */
  keyCharsMax: 1_024,
  /** One part of a key between slashes: file systems allow 255 bytes. */
  keyPartCharsMax: 200,
  /** Body of `put`, and the longest range of one `getRange`: both are held in memory. */
  bodyBytesMax: limits.uploadSinglePutBytesMax,
  /** S3 refuses smaller parts, but for the last. */
  partBytesMin: 5 * MiB,
  partBytesDefault: 16 * MiB,
  partBytesMax: limits.uploadSinglePutBytesMax,
  /** S3 refuses more parts in one upload. */
  partsMax: 10_000,
  /** All objects of one memory store. */
  memoryStoreBytesDefault: 1024 * MiB,
  /** Bytes or pieces handed to the operating system in one write. */
  writeBytesMax: 4 * MiB,
  writePiecesMax: 512,
  listPageKeys: 1_000,
  /** A page of 1,000 keys of the longest length, with the dates and tags around them, is about 2 MiB. */
  listPageBytesMax: 8 * MiB,
  /** Answers that are only read for their error code. */
  answerBytesMax: 256 * KiB,
  markerBytesMax: 4 * KiB,
  /** One write to a socket: small, so that the stall timer sees a slow peer move. */
  socketWriteBytesMax: 512 * KiB,
  socketsMax: 64,
  /** Calls that wait for a socket or an answer; one more is refused. */
  callsInFlightMax: 1_024,
  /** How often a server has to say that one key is a folder of another until it is believed. */
  folderClashAttempts: 4,
} as const;

/** Times of this package, in milliseconds. A caller's `timeoutMs` replaces the one of the whole call. */
export const objectStoreTimers = {
  connectTimeoutMs: 3_000,
  /** No byte moved in either direction. */
  stallTimeoutMs: 30_000,
  /** head, delete, one page of a list, the small calls of a multipart upload. */
  smallCallTimeoutMs: 10_000,
  /** put, getRange, one part of a multipart upload. */
  bodyCallTimeoutMs: 120_000,
  /** Abort of a multipart upload after its failure: nobody waits longer for a clean-up. */
  abortUploadTimeoutMs: 3_000,
  idleSocketMs: 4_000,
  folderClashRetryMs: 25,
  /** Half-written files of a dead process are removed by the next one that opens the folder, once they are this old. */
  staleIncomingMs: 24 * 3_600_000,
} as const;
export type ObjectStoreTimers = { readonly [K in keyof typeof objectStoreTimers]: number };

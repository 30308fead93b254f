import { compressFrameSync, uncompressSync } from "lz4-napi";
import { asBuffer, corrupt, tooLarge } from "./errors.ts";
import { xxhash32 } from "./xxhash32.ts";

/**
 * The LZ4 frame format (what Kafka calls lz4), little-endian:
 *
 *   magic 0x184D2204 | FLG | BD | [content size 8] | [dictionary id 4] | HC | { block size 4, block, [checksum 4] }* | 0 (4) | [content checksum 4]
 *
 *   FLG  bits 7-6 version 01, 5 blocks independent, 4 block checksums, 3 content size, 2 content checksum, 0 dictionary
 *   BD   bits 6-4 largest block: 4 = 64 KiB, 5 = 256 KiB, 6 = 1 MiB, 7 = 4 MiB
 *   block size: high bit = the block is stored plain
 *
 * Compression writes one frame with independent blocks and without checksums: the batch has its CRC, and Kafka's Java client refuses linked blocks.
 * Decompression walks the frame here and hands single blocks to the native library, because the library's own frame function has no
 * output limit: a block holds at most 4 MiB, so the limit is passed by at most that before it is seen.
 */
const MAGIC = 0x184d_2204;
const INDEPENDENT = 0x20;
const BLOCK_CHECKSUM = 0x10;
const CONTENT_SIZE = 0x08;
const CONTENT_CHECKSUM = 0x04;
const DICTIONARY = 0x01;
const STORED = 0x8000_0000;
const WINDOW_BYTES = 64 * 1024;
const TWO_32 = 4294967296;

export const lz4Compress = (bytes: Uint8Array): Uint8Array => compressFrameSync(asBuffer(bytes));

interface Frame {
  readonly flags: number;
  readonly blockBytesMax: number;
  readonly contentBytes: number;
  /** Where the blocks start. */
  readonly at: number;
}

export function lz4Decompress(bytes: Uint8Array, maxBytes: number): Uint8Array {
  const input = asBuffer(bytes);
  const frame = readFrameHeader(input);
  if (frame.contentBytes > maxBytes) throw tooLarge("lz4", maxBytes);
  const parts: Uint8Array[] = [];
  let total = 0;
  let at = frame.at;
  for (;;) {
    const field = uint32(input, at);
    at += 4;
    if (field === 0) break;
    const length = field % STORED;
    if (length > frame.blockBytesMax || length > input.length - at) throw corrupt("lz4", "a block is cut off or too large");
    const stored = input.subarray(at, at + length);
    at += length;
    if ((frame.flags & BLOCK_CHECKSUM) !== 0) {
      if (uint32(input, at) !== xxhash32(stored)) throw corrupt("lz4", "a block fails its checksum");
      at += 4;
    }
    const dictionary = (frame.flags & INDEPENDENT) === 0 ? window(parts) : undefined;
    const part = field >= STORED ? stored : decompressBlock(stored, frame.blockBytesMax, dictionary);
    total += part.length;
    if (total > maxBytes) throw tooLarge("lz4", maxBytes);
    parts.push(part);
  }
  const content = parts.length === 1 ? (parts[0] as Uint8Array) : Buffer.concat(parts, total);
  checkEnd(input, at, frame, content);
  return content;
}

function readFrameHeader(input: Buffer): Frame {
  if (uint32(input, 0) !== MAGIC || input.length < 7) throw corrupt("lz4", "no frame header");
  const flags = input[4] as number;
  const sizeCode = ((input[5] as number) >> 4) & 0x07;
  if (flags >> 6 !== 1 || sizeCode < 4 || (flags & DICTIONARY) !== 0)
    throw corrupt("lz4", "a frame header of another version, or with a dictionary");
  let at = 6;
  let contentBytes = 0;
  if ((flags & CONTENT_SIZE) !== 0) {
    contentBytes = uint32(input, at) + uint32(input, at + 4) * TWO_32;
    at += 8;
  }
  if (input[at] !== ((xxhash32(input.subarray(4, at)) >>> 8) & 0xff)) throw corrupt("lz4", "the frame header fails its checksum");
  return { flags, blockBytesMax: 1 << (8 + 2 * sizeCode), contentBytes, at: at + 1 };
}

function checkEnd(input: Buffer, at: number, frame: Frame, content: Uint8Array): void {
  if ((frame.flags & CONTENT_SIZE) !== 0 && frame.contentBytes !== content.length)
    throw corrupt("lz4", "the content is not of the size that the header says");
  if ((frame.flags & CONTENT_CHECKSUM) === 0) return;
  if (uint32(input, at) !== xxhash32(content)) throw corrupt("lz4", "the content fails its checksum");
}

/** One block. The library wants the room for the output in front of it, and cuts the result to what it wrote. */
function decompressBlock(stored: Buffer, blockBytesMax: number, dictionary: Buffer | undefined): Buffer {
  // A sequence of LZ4 gives at most 255 bytes for each of its own: small blocks get a small room.
  const room = Math.min(blockBytesMax, stored.length * 255);
  const input = Buffer.allocUnsafe(4 + stored.length);
  input.writeUInt32LE(room);
  input.set(stored, 4);
  try {
    return uncompressSync(input, dictionary);
  } catch (error) {
    throw corrupt("lz4", error);
  }
}

/** The last 64 KiB of the output so far: what a linked block may copy from. */
function window(parts: readonly Uint8Array[]): Buffer | undefined {
  const tail: Uint8Array[] = [];
  let bytes = 0;
  for (let i = parts.length - 1; i >= 0 && bytes < WINDOW_BYTES; i--) {
    const part = parts[i] as Uint8Array;
    const piece = part.subarray(Math.max(0, part.length - (WINDOW_BYTES - bytes)));
    tail.unshift(piece);
    bytes += piece.length;
  }
  return bytes === 0 ? undefined : Buffer.concat(tail, bytes);
}

function uint32(input: Buffer, at: number): number {
  if (at + 4 > input.length) throw corrupt("lz4", "it is cut off");
  return input.readUInt32LE(at);
}

import { compressSync, uncompressSync } from "snappy";
import { corrupt, tooLarge } from "./errors.ts";

/**
 * Snappy as Kafka clients use it. Two forms are in the wild, and nothing but the first bytes tells them apart:
 *   raw      one snappy block (librdkafka and what builds on it)
 *   xerial   82 "SNAPPY" 00, version int32, compatible version int32, then { length int32, snappy block of 32 KiB plain }*   (Java clients and most others)
 * Every client reads the second, because the Java producer writes it; so that is what is written here, and both are read. The two
 * version fields are not checked: some writers fill them in the other byte order.
 */
const XERIAL_MAGIC = [0x82, 0x53, 0x4e, 0x41, 0x50, 0x50, 0x59, 0x00];
const XERIAL_HEADER_BYTES = 16;
const XERIAL_BLOCK_BYTES = 32 * 1024;
/** The densest element of a snappy block copies 64 bytes and takes 3: a block that claims more than this for each of its bytes lies. */
const RATIO_MAX = 22;

export function snappyCompress(bytes: Uint8Array): Uint8Array {
  const header = Buffer.alloc(XERIAL_HEADER_BYTES);
  header.set(XERIAL_MAGIC);
  header.writeInt32BE(1, 8);
  header.writeInt32BE(1, 12);
  const parts: Buffer[] = [header];
  for (let at = 0; at < bytes.length; at += XERIAL_BLOCK_BYTES) {
    const block = compressSync(bytes.subarray(at, at + XERIAL_BLOCK_BYTES));
    const length = Buffer.allocUnsafe(4);
    length.writeInt32BE(block.length);
    parts.push(length, block);
  }
  return Buffer.concat(parts);
}

export function snappyDecompress(bytes: Uint8Array, maxBytes: number): Uint8Array {
  if (!isXerial(bytes)) return block(bytes, maxBytes, maxBytes);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const parts: Uint8Array[] = [];
  let total = 0;
  for (let at = XERIAL_HEADER_BYTES; at < bytes.length;) {
    const left = bytes.length - at - 4;
    const length = left < 0 ? -1 : view.getInt32(at);
    if (length < 0 || length > left) throw corrupt("snappy", "a block is cut off");
    const part = block(bytes.subarray(at + 4, at + 4 + length), maxBytes - total, maxBytes);
    parts.push(part);
    total += part.length;
    at += 4 + length;
  }
  return parts.length === 1 ? (parts[0] as Uint8Array) : Buffer.concat(parts, total);
}

const isXerial = (bytes: Uint8Array): boolean => bytes.length >= XERIAL_HEADER_BYTES && XERIAL_MAGIC.every((byte, i) => bytes[i] === byte);

/** One snappy block. Its length is checked before the library allocates it. */
function block(bytes: Uint8Array, allowed: number, maxBytes: number): Uint8Array {
  const length = plainLength(bytes);
  if (length < 0 || length > bytes.length * RATIO_MAX) throw corrupt("snappy", `a block of ${bytes.length} bytes claims ${length}`);
  if (length > allowed) throw tooLarge("snappy", maxBytes);
  try {
    return uncompressSync(bytes, { asBuffer: true }) as Buffer;
  } catch (error) {
    throw corrupt("snappy", error);
  }
}

/** The varint that a snappy block starts with; -1 when it is none of at most 32 bits. */
function plainLength(bytes: Uint8Array): number {
  let length = 0;
  for (let i = 0; i < 5 && i < bytes.length; i++) {
    const byte = bytes[i] as number;
    length += (byte & 0x7f) * 2 ** (7 * i);
    if (byte < 0x80) return length;
  }
  return -1;
}

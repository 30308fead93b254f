import { gunzipSync, gzipSync, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { corrupt, tooLarge } from "./errors.ts";

/** gzip and zstd by Node's own libraries. Both stop as soon as the output passes the limit, whatever sizes the stream claims. */
export const gzip = (bytes: Uint8Array): Uint8Array => gzipSync(bytes);
export const zstd = (bytes: Uint8Array): Uint8Array => zstdCompressSync(bytes);
export const gunzip = (bytes: Uint8Array, maxBytes: number): Uint8Array => bounded("gzip", gunzipSync, bytes, maxBytes);
export const unzstd = (bytes: Uint8Array, maxBytes: number): Uint8Array => bounded("zstd", zstdDecompressSync, bytes, maxBytes);

/** Output grows in chunks: small ones for small streams, and few for large ones. */
const CHUNK_BYTES_MIN = 1024;
const CHUNK_BYTES_MAX = 64 * 1024;

type Decompress = (bytes: Uint8Array, options: { maxOutputLength: number; chunkSize: number }) => Uint8Array;
function bounded(codec: string, decompress: Decompress, bytes: Uint8Array, maxBytes: number): Uint8Array {
  const chunkSize = Math.min(CHUNK_BYTES_MAX, Math.max(CHUNK_BYTES_MIN, bytes.length * 4));
  try {
    return decompress(bytes, { maxOutputLength: Math.max(1, maxBytes), chunkSize });
  } catch (error) {
    if ((error as { code?: unknown }).code === "ERR_BUFFER_TOO_LARGE") throw tooLarge(codec, maxBytes);
    throw corrupt(codec, error);
  }
}

/**
 * Compression as a port: the native one comes from `@sluice/codec`. The numbers are Kafka's and are persisted in the attributes of
 * every batch: never reuse one, never change one.
 */
export const codecs = { none: 0, gzip: 1, snappy: 2, lz4: 3, zstd: 4 } as const;
export type CodecName = keyof typeof codecs;
/** A codec number that this version knows. */
export type Codec = (typeof codecs)[CodecName];

const names: readonly CodecName[] = ["none", "gzip", "snappy", "lz4", "zstd"];
export const isCodec = (n: number): n is Codec => n >= 0 && n < names.length;
export const codecName = (codec: Codec): CodecName => names[codec] as CodecName;

export interface Codecs {
  /** The bytes in the stream format that Kafka clients read; `none` returns its argument. */
  compress(codec: Codec, bytes: Uint8Array): Uint8Array;
  /**
   * The plain bytes; `none` returns its argument.
   * Throws CORRUPT_BATCH when `bytes` is no valid stream, and MESSAGE_TOO_LARGE as soon as the result is known to exceed `maxBytes`:
   * an implementation never allocates much more than `maxBytes`, whatever the stream claims.
   */
  decompress(codec: Codec, bytes: Uint8Array, maxBytes: number): Uint8Array;
}

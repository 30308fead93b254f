/**
 * Big-endian integers in a Uint8Array without a DataView, so that reading a header makes no object.
 * The record batch is big-endian (it is Kafka's); formats of our own that lie beside it use the same order.
 * The caller has checked that the bytes exist: reads past the end give zeros, never an error.
 */
const TWO_32 = 4294967296;

export const readInt8 = (b: Uint8Array, at: number): number => ((b[at] as number) << 24) >> 24;
export const readInt16 = (b: Uint8Array, at: number): number => (((b[at] as number) << 24) >> 16) | (b[at + 1] as number);
export const readInt32 = (b: Uint8Array, at: number): number =>
  ((b[at] as number) << 24) | ((b[at + 1] as number) << 16) | ((b[at + 2] as number) << 8) | (b[at + 3] as number);
export const readUint32 = (b: Uint8Array, at: number): number => readInt32(b, at) >>> 0;
/** int64 as a double: exact within ±2^53, rounded beyond; callers that care check `Number.isSafeInteger`. */
export const readInt64 = (b: Uint8Array, at: number): number => readInt32(b, at) * TWO_32 + readUint32(b, at + 4);

export function writeInt16(b: Uint8Array, at: number, v: number): void {
  b[at] = v >> 8;
  b[at + 1] = v;
}
/** Takes int32 and uint32 alike. */
export function writeInt32(b: Uint8Array, at: number, v: number): void {
  b[at] = v >> 24;
  b[at + 1] = v >> 16;
  b[at + 2] = v >> 8;
  b[at + 3] = v;
}
/** Writes an integer double, negative ones as two's complement. */
export function writeInt64(b: Uint8Array, at: number, v: number): void {
  const high = Math.floor(v / TWO_32);
  writeInt32(b, at, high | 0);
  writeInt32(b, at + 4, (v - high * TWO_32) | 0);
}

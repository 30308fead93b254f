import { SluiceError } from "@sluice/core/model";

export const corrupt = (codec: string, cause: unknown): SluiceError =>
  new SluiceError("CORRUPT_BATCH", `the ${codec} stream is not valid: ${cause instanceof Error ? cause.message : String(cause)}`, {
    cause,
  });
export const tooLarge = (codec: string, maxBytes: number): SluiceError =>
  new SluiceError("MESSAGE_TOO_LARGE", `the ${codec} stream decompresses to more than ${maxBytes} bytes`);
/** The same memory as a Buffer: what the native modules take. */
export const asBuffer = (bytes: Uint8Array): Buffer => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);

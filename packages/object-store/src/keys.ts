import { SluiceError } from "@sluice/core/model";
import { totalBytes } from "./body.ts";
import { objectStoreLimits } from "./limits.ts";
import type { CallOptions } from "./port.ts";

const PART = /^[A-Za-z0-9._-]+$/;
const PREFIX = /^[A-Za-z0-9._/-]*$/;

export const invalid = (message: string): SluiceError => new SluiceError("INVALID_ARGUMENT", message);

/** True for one part of a key: what a folder or file of the filesystem adapter may be called. */
export const isKeyPart = (part: string): boolean =>
  part.length <= objectStoreLimits.keyPartCharsMax && PART.test(part) && part !== "." && part !== "..";

/** Throws INVALID_ARGUMENT unless `key` is parts of `[A-Za-z0-9._-]` joined by single slashes, none of them `.` or `..`. */
export function checkKey(key: string): void {
  if (key.length > objectStoreLimits.keyCharsMax || !key.split("/").every(isKeyPart)) {
    throw invalid(
      `object key must be parts of [A-Za-z0-9._-] joined by single slashes, neither "." nor "..", at most ` +
        `${objectStoreLimits.keyPartCharsMax} characters each and ${objectStoreLimits.keyCharsMax} in all; got ${shown(key)}`,
    );
  }
}

/** As `checkKey` for the prefix of a list, which may be empty, end with a slash or in the middle of a part. */
export function checkPrefix(prefix: string): void {
  const parts = prefix.split("/");
  const last = parts.pop() ?? "";
  const ok = prefix.length <= objectStoreLimits.keyCharsMax && PREFIX.test(prefix) && parts.every(isKeyPart);
  if (!ok || last.length > objectStoreLimits.keyPartCharsMax) {
    throw invalid(`prefix of a list must be the beginning of an object key; got ${shown(prefix)}`);
  }
}

/** Total bytes of a body. Throws INVALID_ARGUMENT above the limit. */
export function checkBody(key: string, body: readonly Uint8Array[]): number {
  const bytes = totalBytes(body);
  if (bytes > objectStoreLimits.bodyBytesMax) {
    throw invalid(`${key}: ${bytes} bytes are more than one put takes (${objectStoreLimits.bodyBytesMax}); use putMultipart`);
  }
  return bytes;
}

export function checkRange(key: string, start: number, length: number): void {
  if (!Number.isSafeInteger(start) || start < 0 || !Number.isSafeInteger(length) || length < 0) {
    throw invalid(`${key}: start ${start} and length ${length} of a range must be integers of at least 0`);
  }
  if (length > objectStoreLimits.bodyBytesMax) {
    throw invalid(`${key}: a range of ${length} bytes is longer than one read takes (${objectStoreLimits.bodyBytesMax})`);
  }
}

/** The size of the parts of a multipart upload. Throws INVALID_ARGUMENT outside the limits. */
export function checkPartBytes(key: string, options: { readonly partBytes?: number } | undefined): number {
  const partBytes = options?.partBytes ?? objectStoreLimits.partBytesDefault;
  const { partBytesMin, partBytesMax } = objectStoreLimits;
  if (!Number.isSafeInteger(partBytes) || partBytes < partBytesMin || partBytes > partBytesMax) {
    throw invalid(`${key}: partBytes must be ${partBytesMin} to ${partBytesMax}, got ${partBytes}`);
  }
  return partBytes;
}

export function checkCall(options: CallOptions | undefined): void {
  const ms = options?.timeoutMs;
  if (ms !== undefined && !(ms > 0 && Number.isFinite(ms))) throw invalid(`timeoutMs must be above 0, got ${ms}`);
}

const shown = (text: string): string => JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}...` : text);

import { limits } from "@sluice/core/model";
import { EMPTY, type Frame } from "../frame.ts";
import { malformed } from "./codec.ts";

/**
 * Optional tagged fields after a fixed struct: `tag varint, length varint, bytes`, repeated to the end of the header, 256 bytes at most.
 * Tags that a reader does not know are skipped. Append, produce and tail carry them as raw bytes (annotations).
 */
export function readAnnotations(frame: Frame, fixedBytes: number, name: string): Uint8Array {
  const bytes = frame.headerEnd - frame.headerAt - fixedBytes;
  if (bytes === 0) return EMPTY;
  if (bytes > limits.annotationBytesMax) throw malformed(`${name}: ${bytes} bytes of tagged fields, limit ${limits.annotationBytesMax}`);
  const start = frame.view.byteOffset + frame.headerAt + fixedBytes;
  return new Uint8Array(frame.view.buffer, start, bytes).slice();
}
export function writeBytes(view: DataView, at: number, bytes: Uint8Array): void {
  if (bytes.length > 0) new Uint8Array(view.buffer, view.byteOffset + at, bytes.length).set(bytes);
}

/** Calls `field(tag, at, end)` for each tagged field from `at` to `end`; positions are in `view`. */
export function readTagged(
  view: DataView,
  at: number,
  end: number,
  name: string,
  field: (tag: number, at: number, end: number) => void,
): void {
  let pos = at;
  const varint = (): number => {
    let value = 0;
    for (let shift = 0; shift < 28; shift += 7) {
      if (pos >= end) throw malformed(`${name}: tagged field is cut`);
      const byte = view.getUint8(pos++);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    throw malformed(`${name}: varint over 28 bits`);
  };
  while (pos < end) {
    const tag = varint();
    const length = varint();
    if (pos + length > end) throw malformed(`${name}: tagged field is cut`);
    field(tag, pos, pos + length);
    pos += length;
  }
}

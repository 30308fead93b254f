/**
 * UTF-8 without the platform's encoder, since this package is pure. Names are short and nearly always ASCII: that path is first.
 * As the platform's encoders do, bad bytes and lone surrogates become U+FFFD: text never fails.
 */
const REPLACEMENT = 0xfffd;
/** Code units joined at a time: `fromCharCode` takes them as arguments. */
const UNITS_PER_CALL = 1_024;

export function utf8Bytes(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i += 1) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) continue;
    if (unit < 0x800) bytes += 1;
    else if (isHigh(unit) && isLow(text.charCodeAt(i + 1))) {
      bytes += 2;
      i += 1;
    } else bytes += 2;
  }
  return bytes;
}

/** Writes `text` at `at`, where `utf8Bytes(text)` bytes must be free. Returns the position after it. */
export function writeUtf8(into: Uint8Array, at: number, text: string): number {
  for (let i = 0; i < text.length; i += 1) {
    const point = text.charCodeAt(i);
    if (point < 0x80) into[at++] = point;
    else if (isHigh(point) && isLow(text.charCodeAt(i + 1))) {
      at = writePoint(into, at, text.codePointAt(i) as number);
      i += 1;
    } else at = writePoint(into, at, isSurrogate(point) ? REPLACEMENT : point);
  }
  return at;
}
function writePoint(into: Uint8Array, at: number, point: number): number {
  if (point < 0x800) {
    into[at++] = 0xc0 | (point >> 6);
  } else {
    if (point < 0x1_0000) into[at++] = 0xe0 | (point >> 12);
    else {
      into[at++] = 0xf0 | (point >> 18);
      into[at++] = 0x80 | ((point >> 12) & 0x3f);
    }
    into[at++] = 0x80 | ((point >> 6) & 0x3f);
  }
  into[at++] = 0x80 | (point & 0x3f);
  return at;
}

export function readUtf8(bytes: Uint8Array, at: number, end: number): string {
  let text = "";
  let units: number[] = [];
  while (at < end) {
    const first = bytes[at] as number;
    if (first < 0x80) {
      units.push(first);
      at += 1;
    } else {
      const length = pointLength(bytes, at, end);
      const point = length < 0 ? REPLACEMENT : pointAt(bytes, at, length);
      if (point >= 0x1_0000) units.push(0xd7c0 + (point >> 10), 0xdc00 | (point & 0x3ff));
      else units.push(point);
      at += Math.abs(length);
    }
    if (units.length >= UNITS_PER_CALL) {
      text += String.fromCharCode(...units);
      units = [];
    }
  }
  return text + String.fromCharCode(...units);
}
/** Bytes of the character at `at`; below zero: that many bytes are one bad sequence. */
function pointLength(bytes: Uint8Array, at: number, end: number): number {
  const first = bytes[at] as number;
  const length = first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : first >= 0xf0 && first < 0xf5 ? 4 : 0;
  if (length === 0) return -1;
  // The second byte keeps out overlong forms, surrogates and what is beyond U+10FFFF.
  const second = at + 1 < end ? (bytes[at + 1] as number) : 0;
  const low = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
  const high = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
  if (second < low || second > high) return -1;
  for (let i = 2; i < length; i += 1) if (at + i >= end || ((bytes[at + i] as number) & 0xc0) !== 0x80) return -i;
  return length;
}
function pointAt(bytes: Uint8Array, at: number, length: number): number {
  let point = (bytes[at] as number) & (0xff >> (length + 1));
  for (let i = 1; i < length; i += 1) point = (point << 6) | ((bytes[at + i] as number) & 0x3f);
  return point;
}
const isHigh = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00;
const isLow = (unit: number): boolean => unit >= 0xdc00 && unit < 0xe000;
const isSurrogate = (unit: number): boolean => unit >= 0xd800 && unit < 0xe000;

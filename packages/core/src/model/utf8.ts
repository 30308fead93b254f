/** UTF-8 without the encoders of a platform. Halves of surrogate pairs become U+FFFD, as TextEncoder has it. */
const REPLACEMENT = 0xfffd;

const codePoint = (s: string, i: number): number => {
  const c = s.codePointAt(i) as number;
  return c >= 0xd800 && c <= 0xdfff ? REPLACEMENT : c;
};
const bytesOf = (c: number): number => (c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x1_0000 ? 3 : 4);

/** Length of `s` in UTF-8. */
export function utf8Bytes(s: string): number {
  let bytes = 0;
  for (let i = 0; i < s.length; i++) {
    const c = codePoint(s, i);
    bytes += bytesOf(c);
    if (c > 0xffff) i++;
  }
  return bytes;
}

/** Writes `s` at `at`; returns where it ends. */
export function writeUtf8(b: Uint8Array, at: number, s: string): number {
  let end = at;
  for (let i = 0; i < s.length; i++) {
    const c = codePoint(s, i);
    if (c > 0xffff) i++;
    const n = bytesOf(c);
    if (n === 1) b[end] = c;
    else {
      b[end] = (n === 2 ? 0xc0 : n === 3 ? 0xe0 : 0xf0) | (c >> (6 * (n - 1)));
      for (let k = 1; k < n; k++) b[end + k] = 0x80 | ((c >> (6 * (n - 1 - k))) & 0x3f);
    }
    end += n;
  }
  return end;
}
export function encodeUtf8(s: string): Uint8Array {
  const b = new Uint8Array(utf8Bytes(s));
  writeUtf8(b, 0, s);
  return b;
}

/** The text of `length` bytes at `at`; undefined for bytes that are not UTF-8 (also overlong forms and surrogates). */
export function readUtf8(b: Uint8Array, at: number, length: number): string | undefined {
  let s = "";
  const end = at + length;
  for (let i = at; i < end;) {
    const first = b[i] as number;
    if (first < 0x80) {
      s += String.fromCharCode(first);
      i++;
      continue;
    }
    const n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || i + n > end) return undefined;
    let c = first & (0xff >> (n + 1));
    for (let k = 1; k < n; k++) {
      const next = b[i + k] as number;
      if ((next & 0xc0) !== 0x80) return undefined;
      c = (c << 6) | (next & 0x3f);
    }
    if (bytesOf(c) !== n || c > 0x10_ffff || (c >= 0xd800 && c <= 0xdfff)) return undefined;
    s += String.fromCodePoint(c);
    i += n;
  }
  return s;
}

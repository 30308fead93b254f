/**
 * xxHash32, which the LZ4 frame format uses for its header, its blocks and its content. Public algorithm; seed 0.
 * Four lanes take 16 bytes a round, the rest goes in by words and bytes, and a final mix spreads the bits.
 */
const P1 = 0x9e37_79b1;
const P2 = 0x85eb_ca77;
const P3 = 0xc2b2_ae3d;
const P4 = 0x27d4_eb2f;
const P5 = 0x1656_67b1;

const rotl = (x: number, n: number): number => (x << n) | (x >>> (32 - n));
const word = (b: Uint8Array, at: number): number =>
  (b[at] as number) | ((b[at + 1] as number) << 8) | ((b[at + 2] as number) << 16) | ((b[at + 3] as number) << 24);
const round = (lane: number, w: number): number => Math.imul(rotl((lane + Math.imul(w, P2)) | 0, 13), P1);

export function xxhash32(bytes: Uint8Array): number {
  const length = bytes.length;
  let at = 0;
  let h = P5 | 0;
  if (length >= 16) {
    let a = (P1 + P2) | 0;
    let b = P2 | 0;
    let c = 0;
    let d = -P1 | 0;
    for (; at + 16 <= length; at += 16) {
      a = round(a, word(bytes, at));
      b = round(b, word(bytes, at + 4));
      c = round(c, word(bytes, at + 8));
      d = round(d, word(bytes, at + 12));
    }
    h = (rotl(a, 1) + rotl(b, 7) + rotl(c, 12) + rotl(d, 18)) | 0;
  }
  h = (h + length) | 0;
  for (; at + 4 <= length; at += 4) h = Math.imul(rotl((h + Math.imul(word(bytes, at), P3)) | 0, 17), P4);
  for (; at < length; at++) h = Math.imul(rotl((h + Math.imul(bytes[at] as number, P5)) | 0, 11), P1);
  h = Math.imul(h ^ (h >>> 15), P2);
  h = Math.imul(h ^ (h >>> 13), P3);
  return (h ^ (h >>> 16)) >>> 0;
}

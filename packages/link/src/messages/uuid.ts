/** A uuid as 16 bytes, in the order of its text. */
const hex: string[] = [];
for (let i = 0; i < 256; i++) hex.push(i.toString(16).padStart(2, "0"));
const digit = new Int8Array(128).fill(-1);
for (let i = 0; i < 16; i++) {
  digit[i.toString(16).charCodeAt(0)] = i;
  digit[i.toString(16).toUpperCase().charCodeAt(0)] = i;
}

/** Throws RangeError when `text` is not a uuid. */
export function writeUuid(view: DataView, at: number, text: string): void {
  if (text.length !== 36) throw new RangeError(`not a uuid: ${text}`);
  let out = at;
  for (let i = 0; i < 36; i += 2) {
    if (i === 8 || i === 13 || i === 18 || i === 23) i++;
    const high = digit[text.charCodeAt(i)] ?? -1;
    const low = digit[text.charCodeAt(i + 1)] ?? -1;
    if (high < 0 || low < 0) throw new RangeError(`not a uuid: ${text}`);
    view.setUint8(out++, (high << 4) | low);
  }
}
export function readUuid(view: DataView, at: number): string {
  let text = "";
  for (let i = 0; i < 16; i++) {
    if (i === 4 || i === 6 || i === 8 || i === 10) text += "-";
    text += hex[view.getUint8(at + i)] ?? "";
  }
  return text;
}
/**
 * Decodes uuids without making a string again for one that was seen: the same few topics come in every frame. A bounded table; a
 * collision only costs the string.
 */
export class UuidCache {
  readonly #slots: { a: number; b: number; c: number; d: number; text: string }[] = [];
  readonly #mask: number;
  constructor(slots = 1024) {
    this.#mask = slots - 1;
    for (let i = 0; i < slots; i++) this.#slots.push({ a: 0, b: 0, c: 0, d: 0, text: "" });
  }
  read(view: DataView, at: number): string {
    const a = view.getUint32(at, true);
    const b = view.getUint32(at + 4, true);
    const c = view.getUint32(at + 8, true);
    const d = view.getUint32(at + 12, true);
    const slot = this.#slots[(a ^ (b >>> 7) ^ c ^ (d >>> 3)) & this.#mask];
    if (slot === undefined) return readUuid(view, at);
    if (slot.text !== "" && slot.a === a && slot.b === b && slot.c === c && slot.d === d) return slot.text;
    slot.a = a;
    slot.b = b;
    slot.c = c;
    slot.d = d;
    slot.text = readUuid(view, at);
    return slot.text;
  }
}
export const uuidCache = new UuidCache();

/** The zero uuid: Kafka's "no id". */
export const ZERO_UUID = "00000000-0000-0000-0000-000000000000";
export const UUID_BYTES = 16;

const HEX: readonly string[] = Array.from({ length: 256 }, (_, i) => i.toString(16).padStart(2, "0"));
const FORM = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** 16 bytes as 36 lower-case characters. */
export function readUuid(bytes: Uint8Array, at: number): string {
  let text = "";
  for (let i = 0; i < UUID_BYTES; i += 1) {
    if (i === 4 || i === 6 || i === 8 || i === 10) text += "-";
    text += HEX[bytes[at + i] as number];
  }
  return text;
}
/** The reverse; false when `text` is no uuid. */
export function writeUuid(into: Uint8Array, at: number, text: string): boolean {
  if (!FORM.test(text)) return false;
  let digits = 0;
  for (let i = 0; i < text.length; i += 1) {
    const unit = text.charCodeAt(i);
    if (unit === 0x2d) continue;
    const value = unit < 0x3a ? unit - 0x30 : (unit | 0x20) - 0x57;
    const byte = at + (digits >> 1);
    into[byte] = (digits & 1) === 0 ? value << 4 : (into[byte] as number) | value;
    digits += 1;
  }
  return true;
}

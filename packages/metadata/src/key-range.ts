const encoder = new TextEncoder();
const decoder = new TextDecoder();

export const encodeKey = (key: string): Uint8Array => encoder.encode(key);
export const decodeKey = (bytes: Uint8Array): string => decoder.decode(bytes);

/**
 * The smallest byte string above every string that starts with `prefix`; undefined = no upper bound (the empty prefix).
 * UTF-8 never contains 0xff, so the last byte can always be raised.
 */
export function prefixEnd(prefix: Uint8Array): Uint8Array | undefined {
  if (prefix.length === 0) return undefined;
  const end = prefix.slice();
  end[end.length - 1] = (end[end.length - 1] ?? 0) + 1;
  return end;
}

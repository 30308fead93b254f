/**
 * CRC32C (Castagnoli) as a port: the native one comes from `@sluice/codec`. Returns a uint32.
 * `seed` is the CRC of the bytes before these, so that parts are summed without joining them:
 * crc(b, crc(a)) === crc(a ++ b), and crc(b) === crc(b, 0).
 */
export type Crc32c = (bytes: Uint8Array, seed?: number) => number;

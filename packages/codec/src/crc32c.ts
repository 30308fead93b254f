import { crc32c as native } from "@node-rs/crc32";
import type { Crc32c } from "@sluice/core/log";

/** The processor's CRC32C instruction, through a native module. */
export const crc32c: Crc32c = (bytes, seed) => native(bytes, seed);

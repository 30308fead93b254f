export { nativeCodecs } from "./codecs.ts";
export { crc32c } from "./crc32c.ts";

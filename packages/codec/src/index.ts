export * from "./crc32c.ts";

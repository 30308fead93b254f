export { apiRanges, type ApiName } from "./apis.ts";
export * from "./error.ts";
export * from "./gen/messages.ts";
export * from "./header.ts";
export { LEGACY_PRODUCE_MAX, refuseLegacyProduce } from "./legacy-produce.ts";
export { WIRE_ELEMENTS_MAX, type Input, type MessageType } from "./message.ts";
export { ZERO_UUID } from "./uuid.ts";
export { Writer } from "./writer.ts";

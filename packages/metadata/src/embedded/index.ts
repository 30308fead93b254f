export { openEmbeddedMetadata, type EmbeddedMetadata, type EmbeddedMetadataOptions } from "./store.ts";

export type { EtcdTls } from "./endpoints.ts";
export { openEtcdMetadata, type EtcdMetadataOptions } from "./store.ts";

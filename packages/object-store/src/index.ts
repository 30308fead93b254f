export * from "./filesystem/store.ts";
export * from "./keys.ts";
export * from "./limits.ts";
export * from "./memory.ts";
export * from "./port.ts";
export * from "./s3/store.ts";
export type { S3Credentials } from "./s3/signer.ts";

import { fileURLToPath } from "node:url";
import { loadPackageDefinition, type ClientDuplexStream, type Metadata, type ServiceClientConstructor } from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

/*
 * etcd's own protocol files, as the `etcd3` package ships them, loaded the way that package loads them. Its generated stubs cannot be
 * used by themselves: they take its connection pool, which repeats calls up to three times after errors that leave the outcome of a
 * transaction unknown, and opens a circuit breaker for five seconds. Here a write is sent once.
 */
const definition = loadSync(fileURLToPath(new URL("proto/rpc.proto", import.meta.resolve("etcd3/package.json"))), {
  keepCase: true,
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
});
const services = (loadPackageDefinition(definition) as unknown as { etcdserverpb: Record<ServiceName, ServiceClientConstructor> })
  .etcdserverpb;

export type ServiceName = "KV" | "Watch" | "Lease";
export const serviceConstructor = (name: ServiceName): ServiceClientConstructor => services[name];

/* Messages as proto-loader gives them: int64 as decimal text, bytes as Buffers, every field of an answer present. */
export interface Header {
  readonly revision: string;
}
export interface KeyValueMessage {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
  readonly create_revision: string;
  readonly mod_revision: string;
  readonly version: string;
  readonly lease: string;
}
export interface RangeRequest {
  readonly key: Uint8Array;
  readonly range_end?: Uint8Array;
  readonly limit?: number;
  readonly revision?: number;
}
export interface RangeResponse {
  readonly header: Header;
  readonly kvs: readonly KeyValueMessage[];
  readonly more: boolean;
}
export interface CompareMessage {
  readonly result: "Equal";
  readonly target: "Mod" | "Create";
  readonly key: Uint8Array;
  readonly mod_revision?: number;
  readonly create_revision?: number;
}
export type RequestOp =
  | { readonly request_range: RangeRequest }
  | { readonly request_put: { readonly key: Uint8Array; readonly value: Uint8Array; readonly lease: string } }
  | { readonly request_delete_range: { readonly key: Uint8Array; readonly range_end?: Uint8Array } };
export interface TxnRequest {
  readonly compare: readonly CompareMessage[];
  readonly success: readonly RequestOp[];
  readonly failure: readonly RequestOp[];
}
export interface ResponseOp {
  readonly response_range?: { readonly kvs: readonly KeyValueMessage[] };
  readonly response_put?: object;
  readonly response_delete_range?: { readonly deleted: string };
}
export interface TxnResponse {
  readonly header: Header;
  readonly succeeded: boolean;
  readonly responses: readonly ResponseOp[];
}
export interface WatchRequest {
  readonly create_request: {
    readonly key: Uint8Array;
    readonly range_end: Uint8Array;
    readonly start_revision: number;
    readonly progress_notify: true;
    readonly fragment: true;
  };
}
export interface WatchResponse {
  readonly header: Header;
  readonly created: boolean;
  readonly canceled: boolean;
  readonly compact_revision: string;
  readonly cancel_reason: string;
  readonly fragment: boolean;
  readonly events: readonly { readonly type: "Put" | "Delete"; readonly kv: KeyValueMessage }[];
}
export interface LeaseGrantResponse {
  readonly header: Header;
  readonly ID: string;
  readonly TTL: string;
}
export interface LeaseKeepAliveRequest {
  readonly ID: string;
}
export interface LeaseKeepAliveResponse {
  readonly ID: string;
  /** Seconds; not positive = there is no such lease. */
  readonly TTL: string;
}

/** Methods of the streaming calls on a client made by `serviceConstructor`. */
export interface WatchClient {
  watch(metadata: Metadata): ClientDuplexStream<WatchRequest, WatchResponse>;
}
export interface LeaseClient {
  leaseKeepAlive(metadata: Metadata): ClientDuplexStream<LeaseKeepAliveRequest, LeaseKeepAliveResponse>;
}

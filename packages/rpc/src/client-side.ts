/** What a client needs, without server, reflection and health: a command line pays for every module that it loads. */
export * from "./channel.ts";
export { type CallOptions, createRpcClient, type RpcClient } from "./client.ts";
export type { ClientDuplex, ClientResponses } from "./client-streams.ts";
export { type Codec, Gathered, messageCodec, rawCodec } from "./codec.ts";
export { fromGrpcError, fromStatus } from "./errors.ts";

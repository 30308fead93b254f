import type { DescMethod, DescService } from "@bufbuild/protobuf";
import { Client, credentials, Metadata, type MethodDefinition } from "@grpc/grpc-js";
import { SluiceError } from "@sluice/core/model";
import { type CodecsOf, type MethodCodecs, methodDefinition, type RequestOut, type ResponseIn } from "./adapter.ts";
import { createRpcChannel, type RpcChannel, type RpcChannelOptions } from "./channel.ts";
import { type ClientDuplex, type ClientResponses, createClientDuplex, createClientResponses, pump } from "./client-streams.ts";
import { decodeFailure, failureCause } from "./codec.ts";
import { CLIENT_ID_HEADER, TRACE_HEADER } from "./context.ts";
import { fromGrpcError } from "./errors.ts";

export interface CallOptions {
  /** Required for every call; Infinity only for streams that are meant to stay open. */
  readonly timeoutMs: number;
  /** Cancels the call; it then fails with the signal's reason when that is one of ours, with CANCELLED otherwise. */
  readonly signal?: AbortSignal;
  readonly traceparent?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly waitForReady?: boolean;
}
/**
 *   unary             call(request, options)            -> promise of the response
 *   server streaming  call(request, options)            -> ClientResponses, an async iterable
 *   client streaming  call(iterable, options)           -> promise of the response
 *   bidirectional     call(options)                     -> ClientDuplex: write and iterate, or event style
 *
 * Every failure is a SluiceError: the server's own when it named one.
 */
type Caller<S extends DescService, M extends keyof S["method"], C, K = S["method"][M]["methodKind"]> = K extends "unary"
  ? (request: RequestOut<S, M, C>, options: CallOptions) => Promise<ResponseIn<S, M, C>>
  : K extends "server_streaming"
    ? (request: RequestOut<S, M, C>, options: CallOptions) => ClientResponses<ResponseIn<S, M, C>>
    : K extends "client_streaming"
      ? (requests: AsyncIterable<RequestOut<S, M, C>>, options: CallOptions) => Promise<ResponseIn<S, M, C>>
      : (options: CallOptions) => ClientDuplex<RequestOut<S, M, C>, ResponseIn<S, M, C>>;
export type RpcClient<S extends DescService, C = CodecsOf<S>> = { readonly [M in keyof S["method"]]: Caller<S, M, C> } & {
  readonly channel: RpcChannel;
  /** Closes the channel when the client made it, and nothing when the channel was handed in. */
  close(): void;
};

/** A typed client of one service. `target` is a channel to share, or an address to open one of its own. */
export function createRpcClient<S extends DescService, const C extends CodecsOf<S> = CodecsOf<S>>(
  service: S,
  target: RpcChannel | string,
  options: RpcChannelOptions & { readonly codecs?: C } = {},
): RpcClient<S, C> {
  const channel = typeof target === "string" ? createRpcChannel(target, options) : target;
  const grpc = new Client(channel.address, credentials.createInsecure(), { channelOverride: channel.raw });
  const codecs = (options.codecs ?? {}) as Readonly<Record<string, MethodCodecs | undefined>>;
  const callers = Object.fromEntries(
    service.methods.map((method) => [method.localName, caller(grpc, channel, method, methodDefinition(method, codecs[method.localName]))]),
  );
  return {
    ...callers,
    channel,
    close() {
      if (typeof target === "string") channel.close();
    },
  } as unknown as RpcClient<S, C>;
}

type Definition = MethodDefinition<unknown, unknown>;

function caller(grpc: Client, channel: RpcChannel, method: DescMethod, definition: Definition): unknown {
  switch (method.methodKind) {
    case "unary":
      return (request: unknown, options: CallOptions) => unary(grpc, channel, definition, request, options);
    case "server_streaming":
      return (request: unknown, options: CallOptions) => {
        const { metadata, deadline } = prepare(channel, definition, options, true);
        const call = grpc.makeServerStreamRequest(
          definition.path,
          definition.requestSerialize,
          definition.responseDeserialize,
          request,
          metadata,
          deadline,
        );
        return createClientResponses(call, definition.path, options.signal);
      };
    case "client_streaming":
      return (requests: AsyncIterable<unknown>, options: CallOptions) => clientStream(grpc, channel, definition, requests, options);
    default:
      return (options: CallOptions) => {
        const { metadata, deadline } = prepare(channel, definition, options, true);
        const call = grpc.makeBidiStreamRequest(
          definition.path,
          definition.requestSerialize,
          definition.responseDeserialize,
          metadata,
          deadline,
        );
        return createClientDuplex(call, definition.path, options.signal);
      };
  }
}

function prepare(channel: RpcChannel, definition: Definition, options: CallOptions, streaming: boolean) {
  const { timeoutMs } = options;
  if (!(timeoutMs > 0) || (timeoutMs === Number.POSITIVE_INFINITY && !streaming)) {
    throw new SluiceError("INVALID_ARGUMENT", `${definition.path}: timeoutMs is ${timeoutMs}; every call needs a deadline`);
  }
  if (channel.closed) throw new SluiceError("SHUTTING_DOWN", `${definition.path}: the channel to ${channel.address} is closed`);
  const metadata = new Metadata({ waitForReady: options.waitForReady ?? channel.options.waitForReady ?? false });
  if (channel.options.clientId !== undefined) metadata.set(CLIENT_ID_HEADER, channel.options.clientId);
  if (options.traceparent !== undefined && options.traceparent !== "") metadata.set(TRACE_HEADER, options.traceparent);
  for (const [key, value] of Object.entries(options.headers ?? {})) metadata.set(key, value);
  const deadline = timeoutMs === Number.POSITIVE_INFINITY ? {} : { deadline: channel.clock.wallMs() + timeoutMs };
  return { metadata, deadline };
}

/** The answer of a call with one answer: settles once, cancels on abort, leaves no listener behind. */
function answer<Call extends { cancel(): void }>(
  path: string,
  signal: AbortSignal | undefined,
  start: (done: (error: unknown, value?: unknown) => void) => Call,
): { readonly call: Call | undefined; readonly value: Promise<unknown> } {
  if (signal?.aborted === true) return { call: undefined, value: Promise.reject(cancelled(path, signal)) };
  const { promise: value, resolve, reject } = Promise.withResolvers<unknown>();
  const onAbort = (): void => {
    reject(cancelled(path, signal));
    call.cancel();
  };
  const call = start((error, response) => {
    signal?.removeEventListener("abort", onAbort);
    const failure = decodeFailure(response);
    if (error !== null && error !== undefined) reject(fromGrpcError(error));
    else if (failure !== undefined) reject(malformedReply(path, failureCause(failure)));
    else resolve(response);
  });
  signal?.addEventListener("abort", onAbort, { once: true });
  return { call, value };
}
function cancelled(path: string, signal: AbortSignal | undefined): SluiceError {
  const reason: unknown = signal?.reason;
  const known = typeof reason === "object" && reason !== null && "code" in reason && reason.code === "TIMED_OUT";
  return new SluiceError(known ? "TIMED_OUT" : "CANCELLED", `${path}: given up by the caller`, { cause: reason });
}
const malformedReply = (path: string, cause: unknown): SluiceError =>
  new SluiceError("VERSION_MISMATCH", `${path}: the reply is not a valid message`, { cause });

async function unary(grpc: Client, channel: RpcChannel, definition: Definition, request: unknown, options: CallOptions): Promise<unknown> {
  const { metadata, deadline } = prepare(channel, definition, options, false);
  return answer(definition.path, options.signal, (done) =>
    grpc.makeUnaryRequest(
      definition.path,
      definition.requestSerialize,
      definition.responseDeserialize,
      request,
      metadata,
      deadline,
      (error, value) => done(error, value),
    ),
  ).value;
}

async function clientStream(
  grpc: Client,
  channel: RpcChannel,
  definition: Definition,
  requests: AsyncIterable<unknown>,
  options: CallOptions,
): Promise<unknown> {
  const { metadata, deadline } = prepare(channel, definition, options, true);
  let over = false;
  const { call, value } = answer(definition.path, options.signal, (done) =>
    grpc.makeClientStreamRequest(
      definition.path,
      definition.requestSerialize,
      definition.responseDeserialize,
      metadata,
      deadline,
      (error, response) => {
        over = true;
        done(error, response);
      },
    ),
  );
  if (call === undefined) return value;
  call.on("error", () => undefined);
  // The source's own failure wins over the cancel that it causes.
  const pumped = pump(requests, call, () => over).catch((error: unknown) => {
    call.cancel();
    throw error;
  });
  value.catch(() => undefined);
  await Promise.race([pumped, value]);
  return value;
}

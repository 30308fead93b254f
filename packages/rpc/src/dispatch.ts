import type { handleBidiStreamingCall, handleClientStreamingCall, handleServerStreamingCall, handleUnaryCall } from "@grpc/grpc-js";
import type { ServerDuplexStream as GrpcDuplex, ServerWritableStream, UntypedHandleCall } from "@grpc/grpc-js";
import type { DescMethod } from "@bufbuild/protobuf";
import type { Duplex, Readable, Writable } from "node:stream";
import { codeOf, isSluiceError, type SluiceError } from "@sluice/core/model";
import type { Clock, Logger } from "@sluice/runtime";
import type { ServerCallContext, SurfaceCall } from "./context.ts";
import { toStatus } from "./errors.ts";
import type { MethodRegistration } from "./implement.ts";
import { decoded, requests, ServerDuplexStream, ServerResponseStream, writeAll } from "./streams.ts";

/** What the server gives to every call. */
export interface Dispatch {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Builds the context and counts the call; throws when the caller is not let in. */
  open(call: SurfaceCall, registration: MethodRegistration): ServerCallContext;
  /** `code` is "OK" or the catalogue's. */
  closed(method: DescMethod, context: ServerCallContext, code: string, tookMs: number): void;
}
type Run = (context: ServerCallContext) => Promise<unknown>;
type AnyHandler = (...args: unknown[]) => unknown;

/**
 * One call from its first header to its status, the same for all four kinds:
 * context, access rule, handler, and exactly one `settle`, whichever comes first of the result, an error, the deadline and a cancel.
 */
function execute(
  d: Dispatch,
  reg: MethodRegistration,
  call: SurfaceCall,
  run: Run,
  settle: (error: unknown, value?: unknown) => void,
): void {
  const startedMs = d.clock.monotonicMs();
  const context = d.open(call, reg);
  let settled = false;
  const finish = (error: unknown, value?: unknown): void => {
    if (settled) return;
    settled = true;
    context.close();
    if (error !== undefined && !isSluiceError(error))
      d.logger.error("rpc handler failed", { path: context.path, peer: context.peer, err: error });
    d.closed(reg.method, context, error === undefined ? "OK" : codeOf(error), d.clock.monotonicMs() - startedMs);
    settle(error, value);
  };
  void admitted(context, run, reg, finish);
}
async function admitted(
  context: ServerCallContext,
  run: Run,
  reg: MethodRegistration,
  finish: (error: unknown, value?: unknown) => void,
): Promise<void> {
  try {
    const verdict = context.check(undefined);
    if (verdict !== undefined) await verdict;
    // A unary answer must not wait for a handler that ignores its signal; streams look at the end of the call themselves.
    if (reg.method.methodKind === "unary" || reg.method.methodKind === "client_streaming") context.onEnd(finish);
    finish(undefined, await run(context));
  } catch (error) {
    // A handler that stops because its call ended reports why it ended.
    finish(context.ended ?? error);
  }
}

export function grpcHandler(d: Dispatch, reg: MethodRegistration): UntypedHandleCall {
  switch (reg.method.methodKind) {
    case "unary":
      return unary(d, reg);
    case "server_streaming":
      return serverStreaming(d, reg);
    case "client_streaming":
      return clientStreaming(d, reg);
    default:
      return bidiStreaming(d, reg);
  }
}

function unary(d: Dispatch, reg: MethodRegistration): handleUnaryCall<unknown, unknown> {
  const handler = reg.handler as AnyHandler;
  return (call, callback) =>
    execute(
      d,
      reg,
      call,
      async (context) => handler(decoded(call.request, context.path), context),
      (error, value) => (error === undefined ? callback(null, value) : callback(toStatus(error))),
    );
}
function clientStreaming(d: Dispatch, reg: MethodRegistration): handleClientStreamingCall<unknown, unknown> {
  const handler = reg.handler as AnyHandler;
  return (call, callback) => {
    call.on("error", () => undefined);
    execute(
      d,
      reg,
      call,
      async (context) => handler(requests(call as Readable, context), context),
      (error, value) => (error === undefined ? callback(null, value) : callback(toStatus(error))),
    );
  };
}
function serverStreaming(d: Dispatch, reg: MethodRegistration): handleServerStreamingCall<unknown, unknown> {
  return (call) => {
    const run: Run = async (context) => {
      const out = new ServerResponseStream<unknown>(call as unknown as Writable, context);
      const request: unknown = decoded(call.request, context.path);
      const handler = reg.handler as AnyHandler | { stream: AnyHandler };
      if (typeof handler !== "function") return Promise.race([handler.stream(request, out, context), untilEnd(context)]);
      return writeAll(handler(request, context) as AsyncIterable<unknown>, out, context);
    };
    execute(d, reg, call, run, (error) => endStream(call, error));
  };
}
function bidiStreaming(d: Dispatch, reg: MethodRegistration): handleBidiStreamingCall<unknown, unknown> {
  return (call) => {
    const run: Run = async (context) => {
      const handler = reg.handler as AnyHandler | { stream: AnyHandler };
      const failed = Promise.withResolvers<never>();
      failed.promise.catch(() => undefined);
      const duplex = new ServerDuplexStream<unknown, unknown>(call as unknown as Duplex, context, failed.reject);
      if (typeof handler !== "function") return Promise.race([handler.stream(duplex, context), failed.promise, untilEnd(context)]);
      return writeAll(handler(duplex, context) as AsyncIterable<unknown>, duplex, context);
    };
    execute(d, reg, call, run, (error) => endStream(call, error));
  };
}
function untilEnd(context: ServerCallContext): Promise<never> {
  const ended = Promise.withResolvers<never>();
  context.signal.addEventListener("abort", () => ended.reject(context.signal.reason as SluiceError), { once: true });
  if (context.signal.aborted) ended.reject(context.signal.reason as SluiceError);
  return ended.promise;
}

function endStream(call: ServerWritableStream<unknown, unknown> | GrpcDuplex<unknown, unknown>, error: unknown): void {
  const stream = call as unknown as Writable;
  if (stream.destroyed || stream.writableEnded) return;
  // grpc-js takes the status of a failed stream from the error event; it has a listener of its own.
  if (error !== undefined) stream.emit("error", toStatus(error));
  else stream.end();
}

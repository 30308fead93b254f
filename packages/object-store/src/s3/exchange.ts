import * as http from "node:http";
import * as https from "node:https";
import { isSluiceError, type SluiceError } from "@sluice/core/model";
import type { Clock, Timer } from "@sluice/runtime";
import { grouped, totalBytes } from "../body.ts";
import { unavailable } from "../deadline.ts";
import { systemCode } from "../filesystem/folders.ts";
import { objectStoreLimits } from "../limits.ts";

/** What one HTTP exchange needs besides the request itself. */
export interface Transport {
  readonly clock: Clock;
  readonly agent: http.Agent;
  readonly connectTimeoutMs: number;
  readonly stallTimeoutMs: number;
}
export interface HttpRequest {
  /** For messages: never the signed URL. */
  readonly what: string;
  readonly method: "GET" | "HEAD" | "PUT" | "POST" | "DELETE";
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: readonly Uint8Array[];
  /** A longer answer ends the exchange. */
  readonly answerBytesMax: number;
}
export interface HttpAnswer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: Uint8Array;
}

/**
 * One request, one answer, no retry, no redirect. Bodies are written as they lie in memory, with their length announced and without being
 * hashed. Rejects with OBJECT_STORE_UNAVAILABLE when the connection cannot be made, breaks, stalls, or answers more than it may.
 */
export async function exchange(transport: Transport, request: HttpRequest, signal: AbortSignal): Promise<HttpAnswer> {
  const start = request.url.startsWith("https:") ? https.request : http.request;
  const headers: Record<string, string | number> = { ...request.headers };
  if (request.body !== undefined) headers["content-length"] = totalBytes(request.body);
  const req = start(request.url, { method: request.method, agent: transport.agent, headers });
  let failure: SluiceError | undefined;
  const fail = (error: SluiceError): void => {
    failure ??= error;
    req.destroy();
  };
  const onAbort = (): void => fail(signal.reason as SluiceError);
  if (signal.aborted) onAbort();
  signal.addEventListener("abort", onAbort, { once: true });
  const guard = guardProgress(transport, req, (problem) => fail(unavailable(`${request.what}: ${problem}`)));
  let res: http.IncomingMessage | undefined;
  try {
    const answered = answerOf(req);
    await Promise.race([send(req, request.body ?? []), answered]);
    res = await answered;
    const body = await readBody(res, request);
    return { status: res.statusCode ?? 0, headers: res.headers, body };
  } catch (error) {
    if (failure !== undefined) throw failure;
    if (isSluiceError(error)) throw error;
    throw unavailable(`${request.what}: ${systemCode(error)} ${(error as { message?: string }).message ?? ""}`.trim(), error);
  } finally {
    guard.cancel();
    signal.removeEventListener("abort", onAbort);
    // An answer before the end of the body (refused early), or half of an answer: this connection is no good any more.
    if (!req.writableFinished || res?.complete !== true) req.destroy();
  }
}

function answerOf(req: http.ClientRequest): Promise<http.IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<http.IncomingMessage>();
  req.once("response", resolve);
  // Stays to the end: late errors of a destroyed request must not be unhandled.
  req.on("error", reject);
  promise.catch(() => undefined);
  return promise;
}

async function send(req: http.ClientRequest, body: readonly Uint8Array[]): Promise<void> {
  for (const group of grouped(body, objectStoreLimits.socketWriteBytesMax, objectStoreLimits.writePiecesMax)) {
    if (req.destroyed) return;
    req.cork();
    for (const piece of group) req.write(piece);
    req.uncork();
    if (req.writableNeedDrain) await drained(req);
  }
  if (!req.destroyed) req.end();
}

function drained(req: http.ClientRequest): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const done = (): void => {
    req.off("drain", done);
    req.off("close", done);
    resolve();
  };
  req.on("drain", done);
  req.on("close", done);
  return promise;
}

/** The whole body. An announced length is allocated once and must arrive exactly: Node.js breaks the stream if the connection ends early. */
async function readBody(res: http.IncomingMessage, request: HttpRequest): Promise<Uint8Array> {
  const announced = request.method === "HEAD" ? 0 : Number(res.headers["content-length"] ?? NaN);
  const tooLong = (): SluiceError => unavailable(`${request.what}: the answer is longer than ${request.answerBytesMax} bytes`);
  if (announced > request.answerBytesMax) throw tooLong();
  let out = new Uint8Array(Buffer.allocUnsafeSlow(Number.isSafeInteger(announced) ? announced : 0).buffer);
  let at = 0;
  for await (const chunk of res as AsyncIterable<Uint8Array>) {
    if (at + chunk.length > request.answerBytesMax) throw tooLong();
    if (at + chunk.length > out.length) out = grown(out, at, at + chunk.length);
    out.set(chunk, at);
    at += chunk.length;
  }
  return at === out.length ? out : out.slice(0, at);
}

function grown(old: Uint8Array, used: number, needed: number): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(Math.max(needed, old.length * 2));
  out.set(old.subarray(0, used));
  return out;
}

/** Ends a request whose connection is not made in time, or on which no byte moves: dead peers send no reset. */
function guardProgress(transport: Transport, req: http.ClientRequest, fail: (problem: string) => void): Timer {
  const { clock, connectTimeoutMs, stallTimeoutMs } = transport;
  let connectTimer: Timer | undefined;
  let lastBytes = -1;
  req.once("socket", (socket) => {
    if (!socket.connecting) return;
    connectTimer = clock.setTimer(connectTimeoutMs, () => fail(`no connection within ${connectTimeoutMs} ms`));
    socket.once("connect", () => connectTimer?.cancel());
  });
  const check = (): void => {
    const bytes = (req.socket?.bytesRead ?? 0) + (req.socket?.bytesWritten ?? 0);
    if (bytes === lastBytes) return fail(`no byte moved for ${stallTimeoutMs} ms`);
    lastBytes = bytes;
    stallTimer = clock.setTimer(stallTimeoutMs, check);
  };
  let stallTimer = clock.setTimer(stallTimeoutMs, check);
  return {
    cancel() {
      connectTimer?.cancel();
      stallTimer.cancel();
    },
  };
}

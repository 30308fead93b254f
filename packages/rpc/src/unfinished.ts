import type { ServerInterceptingCallInterface, ServerInterceptor } from "@grpc/grpc-js";
import { constants, type ServerHttp2Stream } from "node:http2";
import { SluiceError } from "@sluice/core/model";
import type { Clock, Timer } from "@sluice/runtime";
import { toStatus } from "./errors.ts";
import { UnreadBytes } from "./unread.ts";

export interface UnfinishedLimits {
  /** Memory for messages of which a part has arrived, all connections together. */
  readonly unfinishedBytesMax: number;
  /** The same for one connection. */
  readonly unfinishedConnectionBytesMax: number;
  readonly receiveBytesMax: number;
  /** Bytes that have arrived and were not read, all connections together. */
  readonly unreadBytesMax: number;
  /** From the first byte of a message to its last, while this side reads. */
  readonly unfinishedMessageMs: number;
}
export type RefusedFor = "memory" | "deadline" | "unread";

/** Compression flag and length. */
const HEAD_BYTES = 5;
/** Smaller pieces are copied, so that a few bytes do not pin what was read from the socket together with them. */
const COPY_BELOW_BYTES = 4 * 1024;
/** What a piece costs beside its bytes: its view and its place in a list. */
const PIECE_BYTES = 256;

/** Advice to the client of a stream that was given up because nobody had time to read it. */
const OVERLOADED_THROTTLE_MS = 1_000;

interface Connection {
  bytes: number;
}

/**
 * Memory of messages that have begun to arrive and not ended. grpc-js holds their pieces and gives nobody a say; the flow-control windows
 * do not bound them, since a stream that is read gets a new window for every piece. So the pieces are counted where they come in:
 *
 *   socket -> HTTP/2 stream -> [ count ] -> grpc-js, which holds pieces until a message is whole -> handler
 *
 * Over a limit, the connection that holds the most loses its oldest unfinished message: its stream ends with MESSAGE_UNFINISHED. So does
 * a message that is not whole in time, unless this side has not read what arrived of it. Others are not touched.
 */
export class UnfinishedMessages {
  readonly #clock: Clock;
  readonly #limits: UnfinishedLimits;
  readonly #onRefused: (reason: RefusedFor) => void;
  readonly #unread: UnreadBytes;
  readonly #connections = new WeakMap<object, Connection>();
  readonly #streams = new WeakMap<object, Incoming>();
  /** Streams in the middle of a message, oldest message first. */
  readonly #open = new Set<Incoming>();
  #timer: Timer | undefined;
  #bytes = 0;

  constructor(clock: Clock, limits: UnfinishedLimits, onRefused: (reason: RefusedFor) => void) {
    this.#clock = clock;
    this.#limits = limits;
    this.#onRefused = onRefused;
    this.#unread = new UnreadBytes(limits.unreadBytesMax, (stream) => this.#overloaded(stream));
  }
  get unreadBytes(): number {
    return this.#unread.bytes;
  }
  get bytes(): number {
    return this.#bytes;
  }
  get messages(): number {
    return this.#open.size;
  }
  /** Tells which call a stream belongs to, so that it can end with a status. Goes first among the interceptors; costs nothing later. */
  readonly interceptor: ServerInterceptor = (_method, call) => {
    const base = call as ServerInterceptingCallInterface & { readonly stream?: object };
    const incoming = base.stream === undefined ? undefined : this.#streams.get(base.stream);
    if (incoming !== undefined) incoming.call = call;
    return call as ReturnType<ServerInterceptor>;
  };

  /** Counts what arrives on a new stream, before anybody else sees it. */
  watch(stream: ServerHttp2Stream): void {
    const session = stream.session;
    if (session === undefined) return;
    let connection = this.#connections.get(session);
    if (connection === undefined) this.#connections.set(session, (connection = { bytes: 0 }));
    const incoming = new Incoming(stream, connection);
    this.#streams.set(stream, incoming);
    const original = stream.push.bind(stream);
    const push = (chunk: Buffer | null): boolean => {
      const more = original(chunk);
      if (!more) {
        incoming.stalled = true;
        this.#unread.arrived(stream);
      }
      return more;
    };
    stream.push = (chunk: Buffer | null): boolean => (chunk === null ? push(null) : this.#take(incoming, chunk, push));
    stream.once("close", () => {
      this.#release(incoming);
      this.#unread.closed(stream);
    });
  }
  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #take(incoming: Incoming, chunk: Buffer, push: (chunk: Buffer) => boolean): boolean {
    if (incoming.refused) return true;
    if (incoming.passed) return push(chunk);
    if (incoming.read(chunk, this.#limits.receiveBytesMax) > 0) this.#release(incoming);
    // Longer than any message may be: grpc-js refuses it and holds nothing.
    if (incoming.passed) this.#release(incoming);
    if (incoming.passed || !incoming.inMessage) return push(chunk);
    const piece = chunk.length < COPY_BELOW_BYTES ? copyOf(chunk) : chunk;
    this.#charge(incoming, piece);
    return incoming.refused || push(piece);
  }
  #charge(incoming: Incoming, piece: Buffer): void {
    // A view keeps alive all that it is a view of.
    const bytes = PIECE_BYTES + (piece.buffer === incoming.pinned ? 0 : piece.buffer.byteLength);
    incoming.pinned = piece.buffer;
    incoming.bytes += bytes;
    incoming.connection.bytes += bytes;
    this.#bytes += bytes;
    if (!this.#open.has(incoming)) {
      incoming.sinceMs = this.#clock.monotonicMs();
      this.#open.add(incoming);
      if (this.#timer === undefined) this.#arm(this.#limits.unfinishedMessageMs);
    }
    const { unfinishedBytesMax, unfinishedConnectionBytesMax } = this.#limits;
    while (incoming.connection.bytes > unfinishedConnectionBytesMax) {
      const oldest = this.#oldestOf(incoming.connection);
      if (oldest === undefined) break;
      this.#refuse(oldest, "memory", `one connection may hold ${unfinishedConnectionBytesMax} bytes of unfinished messages`);
    }
    while (this.#bytes > unfinishedBytesMax) {
      const oldest = this.#oldestOf(undefined);
      if (oldest === undefined) break;
      this.#refuse(oldest, "memory", `the server holds ${unfinishedBytesMax} bytes of unfinished messages`);
    }
  }
  #release(incoming: Incoming): void {
    if (!this.#open.delete(incoming)) return;
    this.#bytes -= incoming.bytes;
    incoming.connection.bytes -= incoming.bytes;
    incoming.bytes = 0;
    incoming.pinned = undefined;
  }
  /** The oldest of a connection; without one, of the connection that holds the most. */
  #oldestOf(connection: Connection | undefined): Incoming | undefined {
    let found: Incoming | undefined;
    for (const one of this.#open) {
      if (connection !== undefined && one.connection === connection) return one;
      if (connection === undefined && (found === undefined || one.connection.bytes > found.connection.bytes)) found = one;
    }
    return found;
  }
  #arm(delayMs: number): void {
    this.#timer = this.#clock.setTimer(delayMs, () => this.#look(), { unref: true });
  }
  #look(): void {
    this.#timer = undefined;
    const { unfinishedMessageMs } = this.#limits;
    const nowMs = this.#clock.monotonicMs();
    for (const one of this.#open) {
      if (nowMs - one.sinceMs < unfinishedMessageMs) break;
      const unread = one.stream.readableLength > 0;
      if (!unread && !one.stalled) {
        this.#refuse(one, "deadline", `the rest of the message did not come within ${unfinishedMessageMs} ms`);
        continue;
      }
      // Its sender waits, or has waited, for this side to read: the time begins anew.
      one.stalled = unread;
      this.#open.delete(one);
      one.sinceMs = nowMs;
      this.#open.add(one);
    }
    const [oldest] = this.#open;
    if (oldest !== undefined) this.#arm(Math.max(1, oldest.sinceMs + unfinishedMessageMs - nowMs));
  }
  #refuse(incoming: Incoming, reason: RefusedFor, text: string): void {
    this.#end(incoming, reason, new SluiceError("MESSAGE_UNFINISHED", text));
  }
  #overloaded(stream: ServerHttp2Stream): void {
    const incoming = this.#streams.get(stream);
    const text = `the server holds ${this.#limits.unreadBytesMax} bytes that it has not come to read`;
    if (incoming?.refused === false)
      this.#end(incoming, "unread", new SluiceError("OVERLOADED", text, { throttleMs: OVERLOADED_THROTTLE_MS }));
  }
  #end(incoming: Incoming, reason: RefusedFor, error: SluiceError): void {
    incoming.refused = true;
    this.#release(incoming);
    this.#onRefused(reason);
    endStream(incoming, toStatus(error), this.#clock);
  }
}

/** Where one stream is in the message that is arriving on it. */
class Incoming {
  readonly stream: ServerHttp2Stream;
  readonly connection: Connection;
  call: ServerInterceptingCallInterface | undefined;
  refused = false;
  /** Bytes of it have waited to be read since the last look. */
  stalled = false;
  passed = false;
  sinceMs = 0;
  bytes = 0;
  pinned: ArrayBufferLike | undefined;
  #head = 0;
  #left = 0;
  constructor(stream: ServerHttp2Stream, connection: Connection) {
    this.stream = stream;
    this.connection = connection;
  }
  get inMessage(): boolean {
    return this.#head > 0;
  }
  /** Steps over the bytes; how many messages end in them. */
  read(chunk: Uint8Array, bytesMax: number): number {
    let ended = 0;
    for (let at = 0; at < chunk.length;) {
      if (this.#head < HEAD_BYTES) {
        const byte = chunk[at++] as number;
        this.#left = this.#head === 0 ? 0 : this.#left * 256 + byte;
        this.#head += 1;
        if (this.#head < HEAD_BYTES) continue;
        if (this.#left > bytesMax) {
          this.passed = true;
          return ended;
        }
      } else {
        const step = Math.min(this.#left, chunk.length - at);
        this.#left -= step;
        at += step;
      }
      if (this.#left > 0) continue;
      this.#head = 0;
      ended += 1;
    }
    return ended;
  }
}

function copyOf(chunk: Buffer): Buffer {
  // Not from the shared pool, which would pin more than it.
  const copy = Buffer.allocUnsafeSlow(chunk.length);
  copy.set(chunk);
  return copy;
}

/** Status first, then the reset that keeps the peer from sending more. A peer that does not read gets only the reset, which means the same. */
function endStream({ stream, call }: Incoming, status: ReturnType<typeof toStatus>, clock: Clock): void {
  if (stream.destroyed || stream.closed) return;
  if (call === undefined || stream.writableEnded || stream.writableLength > 0) {
    stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    return;
  }
  const reset = (): void => stream.close(constants.NGHTTP2_NO_ERROR);
  const replied = stream.headersSent;
  call.sendStatus(status);
  if (!replied) reset();
  // A reset that overtakes the trailers would drop them.
  else stream.once("wantTrailers", () => clock.afterTurn(reset));
}

import { errorNumber, SluiceError, type ErrorCode } from "@sluice/core/model";
import { SendCredit } from "./credit.ts";
import { EMPTY, FRAME_HEAD_BYTES, frameTypeName, isCredited, payloadLength, type Payload } from "./frame.ts";
import { LINK_QUEUE_BYTES_MAX, LINK_WINDOW_BYTES_MAX, type LinkContext, type LinkCounters } from "./link.ts";
import { NO_FIELDS, type Codec } from "./messages/codec.ts";
import { errorCodec, ERROR_MESSAGE_BYTES_MAX, PING_FLAG_WANT_CREDIT, pingCodec } from "./messages/control.ts";
import { encodeHead, frameFits, Outbox } from "./outbox.ts";
import type { Hold } from "./slab.ts";
import type { ByteSocket } from "./socket.ts";

/** Bytes of a turn that are written at once rather than at its end: the peer can begin. */
const FLUSH_BYTES = 1024 * 1024;
/**
 * Most bytes queued at a socket. Credited frames take at most the peer's window or one frame of their own size; what is beyond
 * that are answers that the peer does not read.
 */
const BACKLOG_BYTES_MAX = 2 * LINK_WINDOW_BYTES_MAX + LINK_QUEUE_BYTES_MAX;
const WAITING_GAP_MAX = 1024;
const utf8 = new TextEncoder();

interface Waiting {
  readonly head: Uint8Array;
  /** Of the frame, head included. */
  readonly bytes: number;
  payload: Payload;
  hold: Hold | undefined;
  /** Taken back before it left. */
  withdrawn: boolean;
}
export interface SenderHooks {
  /** Before a write: the place to add a credit frame. */
  beforeFlush(): void;
  onWritable(): void;
  /** The backlog of the socket passed its limit. */
  onOverrun(): void;
}

/**
 * The sending half of a connection. Frames collect in the outbox and leave at the end of the turn in one write; credited ones wait in a
 * queue while the peer gives no credit, in order; the others pass it.
 *
 *   accepted -> (waiting) -> boxed -> handed to the socket        the three counts number the credited frames from 1
 */
export class Sender {
  readonly #context: LinkContext;
  readonly #hooks: SenderHooks;
  readonly #counters: LinkCounters;
  readonly #out = new Outbox();
  readonly #error = errorCodec.create();
  #socket: ByteSocket | undefined;
  #credit = new SendCredit(0);
  #closed = false;
  #flushPlanned = false;
  readonly #waiting: Waiting[] = [];
  #waitingAt = 0;
  #waitingBytes = 0;
  #blocked = false;
  #accepted = 0;
  #boxed = 0;
  #handed = 0;
  readonly #flushAtTurnEnd = (): void => {
    this.#flushPlanned = false;
    this.flush();
  };

  constructor(context: LinkContext, counters: LinkCounters, hooks: SenderHooks) {
    this.#context = context;
    this.#counters = counters;
    this.#hooks = hooks;
  }
  attach(socket: ByteSocket): void {
    this.#socket = socket;
  }
  /** After the peer's hello. */
  grant(windowBytes: number): void {
    this.#credit = new SendCredit(windowBytes);
  }
  /** Number of the credited frame that was accepted last. */
  get accepted(): number {
    return this.#accepted;
  }
  get writable(): boolean {
    const free = !this.#closed && this.#waitingBytes === 0 && this.#credit.available;
    if (!free) this.#blocked = true;
    return free;
  }
  get queuedBytes(): number {
    return this.#waitingBytes + this.#out.bytes + (this.#socket?.backlogBytes ?? 0);
  }
  get inFlightBytes(): number {
    return this.#credit.inFlight;
  }

  /** False: the queue is full. */
  send<T>(codec: Codec<T>, flags: number, correlation: number, message: Readonly<T>, payload: Payload, hold?: Hold): boolean {
    const header = codec.size(message);
    const payloadBytes = payloadLength(payload);
    if (!frameFits(header, payloadBytes)) throw new SluiceError("FRAME_TOO_LARGE", `${frameTypeName(codec.type)} frame is over the limit`);
    if (isCredited(codec.type)) {
      const bytes = FRAME_HEAD_BYTES + header + payloadBytes;
      if (this.#waitingBytes > 0 || !this.#credit.fits(bytes)) return this.#wait(codec, flags, correlation, message, payload, bytes, hold);
      this.#accepted++;
      this.#boxed++;
      this.#credit.sent += bytes;
    }
    this.#out.put(codec, flags, correlation, message, header, payload);
    if (hold !== undefined) this.#out.holdUntilWritten(hold);
    this.planFlush();
    return true;
  }
  /** Frames of the link's own. */
  control<T>(codec: Codec<T>, message: Readonly<T>, flags = 0, correlation = 0, payload: Uint8Array = EMPTY): void {
    if (this.#closed) return;
    this.#out.put(codec, flags, correlation, message, codec.size(message), payload);
    this.planFlush();
  }
  error(flags: number, correlation: number, aboutType: number, code: ErrorCode, message: string): void {
    this.#error.code = errorNumber(code);
    this.#error.aboutType = aboutType;
    this.control(errorCodec, this.#error, flags, correlation, utf8.encode(message).subarray(0, ERROR_MESSAGE_BYTES_MAX));
  }
  /** The peer has released so many bytes in all. False when it says nonsense. */
  onReleased(released: number): boolean {
    if (!this.#credit.onReleased(released)) return false;
    this.#drain();
    return true;
  }
  planFlush(): void {
    if (this.#out.bytes >= FLUSH_BYTES) {
      this.#write();
      return;
    }
    if (this.#flushPlanned) return;
    this.#flushPlanned = true;
    this.#context.clock.afterTurn(this.#flushAtTurnEnd);
  }
  flush(): void {
    if (this.#closed) return;
    this.#hooks.beforeFlush();
    this.#write();
  }
  /** Nothing is sent any more. The counts stay, for `withdraw`. */
  stop(): void {
    this.#closed = true;
    this.#out.clear();
  }
  /** Forgets what waits. */
  clear(): void {
    this.#waiting.length = 0;
    this.#waitingAt = 0;
    this.#waitingBytes = 0;
  }
  /** Takes a frame back. False: it was handed to the socket, or is on its way there. */
  withdraw(frameNumber: number): boolean {
    if (frameNumber <= this.#boxed) return this.#closed && frameNumber > this.#handed;
    const waiting = this.#waiting[this.#waitingAt + frameNumber - this.#boxed - 1];
    if (waiting !== undefined && !waiting.withdrawn) {
      waiting.withdrawn = true;
      this.#waitingBytes -= waiting.bytes;
      letGo(waiting);
    }
    return true;
  }

  #wait<T>(
    codec: Codec<T>,
    flags: number,
    correlation: number,
    message: Readonly<T>,
    payload: Payload,
    bytes: number,
    hold: Hold | undefined,
  ): boolean {
    this.#blocked = true;
    const limit = this.#context.queueBytesMax ?? LINK_QUEUE_BYTES_MAX;
    if (this.#waitingBytes > 0 && this.#waitingBytes + bytes > limit) return false;
    this.#accepted++;
    this.#counters.creditStalls++;
    hold?.retain();
    this.#waiting.push({
      head: encodeHead(codec, flags, correlation, message, payloadLength(payload)),
      bytes,
      payload,
      hold,
      withdrawn: false,
    });
    if (this.#waitingBytes === 0) this.#ask(bytes);
    this.#waitingBytes += bytes;
    return true;
  }
  /** A frame near the size of the window may wait for credit that the peer keeps back. */
  #ask(bytes: number): void {
    if (this.#credit.mustAsk(bytes)) this.control(pingCodec, NO_FIELDS, PING_FLAG_WANT_CREDIT);
  }
  #drain(): void {
    const waiting = this.#waiting;
    while (this.#waitingAt < waiting.length) {
      const next = waiting[this.#waitingAt] as Waiting;
      const { bytes } = next;
      if (!next.withdrawn) {
        if (!this.#credit.fits(bytes)) {
          this.#ask(bytes);
          break;
        }
        this.#credit.sent += bytes;
        this.#waitingBytes -= bytes;
        this.#out.putEncoded(next.head, next.payload);
        if (next.hold !== undefined) this.#out.holdUntilWritten(next.hold);
      }
      this.#boxed++;
      this.#waitingAt++;
      letGo(next);
    }
    if (this.#waitingAt === waiting.length || this.#waitingAt > WAITING_GAP_MAX) {
      waiting.splice(0, this.#waitingAt);
      this.#waitingAt = 0;
    }
    if (this.#out.bytes > 0) this.planFlush();
    if (!this.#blocked || this.#closed || this.#waitingBytes > 0 || !this.#credit.available) return;
    this.#blocked = false;
    this.#hooks.onWritable();
  }
  #write(): void {
    const out = this.#out;
    const socket = this.#socket;
    if (out.bytes === 0 || socket === undefined) return;
    out.seal();
    this.#counters.framesOut += out.frames;
    this.#counters.bytesOut += out.bytes;
    this.#counters.writes++;
    this.#handed = this.#boxed;
    socket.write(out.chunks, out.holds);
    out.clear();
    if (socket.backlogBytes > BACKLOG_BYTES_MAX) this.#hooks.onOverrun();
  }
}
function letGo(waiting: Waiting): void {
  waiting.payload = EMPTY;
  waiting.hold?.release();
  waiting.hold = undefined;
}

import { asSluiceError, errorCodeOf, SluiceError, type ErrorCode } from "@sluice/core/model";
import type { Timer } from "@sluice/runtime";
import { ReceiveCredit } from "./credit.ts";
import { EMPTY, FRAME_TYPE_MAX, FrameType, frameTypeName, type Frame, type Payload } from "./frame.ts";
import { FrameReader } from "./frame-reader.ts";
import { checkHello, headerBytes, helloBytes, makeHello, makeProof, proofCodec, sameProof, type Side } from "./handshake.ts";
import type { AnswerCallback, ExpectedPeer, Link, LinkCloseReason, LinkContext, LinkCounters, LinkHandlers } from "./link.ts";
import {
  creditCodec,
  errorCodec,
  ERROR_FLAG_CLOSING,
  ERROR_MESSAGE_BYTES_MAX,
  PING_FLAG_WANT_CREDIT,
  pingCodec,
  pongCodec,
} from "./messages/control.ts";
import { NO_FIELDS, type Codec } from "./messages/codec.ts";
import { helloCodec, type HelloMessage, type LinkPurpose } from "./messages/hello.ts";
import { Pinger } from "./pinger.ts";
import { RequestTable } from "./requests.ts";
import { Sender } from "./sender.ts";
import type { Hold } from "./slab.ts";
import type { ByteSocket, SocketEvents } from "./socket.ts";

const utf8In = new TextDecoder();
const CORRELATION_MAX = 0xffff_ffff;
const refusedCodes = new Set(["ECONNREFUSED", "ENOENT"]);

export interface ConnectionOptions {
  readonly context: LinkContext;
  readonly side: Side;
  readonly address: string;
  /** Of the accepting side: set by the peer's hello. */
  readonly purpose: LinkPurpose;
  readonly purposes?: readonly LinkPurpose[];
  readonly handlers: LinkHandlers;
  readonly expect?: ExpectedPeer;
  readonly onOpened?: (link: Connection) => void;
  /** Before handlers.onClose. */
  readonly onEnded?: (link: Connection) => void;
  /** Instead of handlers.onClose when the link never opened. */
  readonly onFailed?: (reason: LinkCloseReason) => void;
  /** The socket is gone; after onClose. */
  readonly onGone?: () => void;
}

/** One connection: hello -> (proof) -> open -> closed. `Sender` is its sending half, `FrameReader` its receiving half. */
export class Connection implements Link, SocketEvents {
  peer: Readonly<HelloMessage> = helloCodec.create();
  purpose: LinkPurpose;
  version = 0;
  readonly address: string;
  state: unknown;
  readonly #options: ConnectionOptions;
  readonly #context: LinkContext;
  #phase: "hello" | "proof" | "open" | "closed" = "hello";
  #socket: ByteSocket | undefined;
  readonly #reader: FrameReader;
  readonly #sender: Sender;
  readonly #receiveCredit: ReceiveCredit;
  readonly #requests: RequestTable;
  readonly #pinger: Pinger;
  readonly #ownHello: HelloMessage;
  #peerHelloBytes: Uint8Array = EMPTY;
  #correlation = 0;
  /** Of the handshake; after the end, until the socket is gone. */
  #timer: Timer | undefined;
  readonly #credit = creditCodec.create();
  readonly #error = errorCodec.create();
  readonly #counters: LinkCounters = {
    framesIn: 0,
    framesOut: 0,
    bytesIn: 0,
    bytesOut: 0,
    writes: 0,
    creditStalls: 0,
    queuedBytes: 0,
    inFlightBytes: 0,
  };

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#context = options.context;
    this.address = options.address;
    this.purpose = options.purpose;
    this.#ownHello = makeHello(this.#context, options.purpose);
    this.#receiveCredit = new ReceiveCredit(this.#ownHello.windowBytes);
    this.#reader = new FrameReader((frame, bytes) => this.#onFrame(frame, bytes));
    this.#sender = new Sender(this.#context, this.#counters, {
      beforeFlush: () => this.#addCredit(),
      onWritable: () => this.#options.handlers.onWritable?.(this),
      onOverrun: () => this.#abort("protocol", "OVERLOADED", `${this.#peerName()} does not read its answers`),
    });
    const { clock, timers } = this.#context;
    this.#requests = new RequestTable(clock, (frameNumber) => this.#sender.withdraw(frameNumber));
    this.#pinger = new Pinger(
      clock,
      timers,
      () => this.#sender.control(pingCodec, NO_FIELDS),
      () => this.#abort("timeout", "TIMED_OUT", `${this.#peerName()} answers no ping`),
    );
  }
  /** Before any event of the socket. `deadlineMs` from now for the whole handshake. */
  attach(socket: ByteSocket, deadlineMs: number): void {
    this.#socket = socket;
    this.#sender.attach(socket);
    const late = (): void => this.#fail("timeout", "TIMED_OUT", `no handshake with ${this.address} within ${deadlineMs} ms`);
    this.#timer = this.#context.clock.setTimer(deadlineMs, late);
  }

  // --- Link

  get closed(): boolean {
    return this.#phase === "closed";
  }
  get opened(): boolean {
    return this.#phase === "open";
  }
  get counters(): Readonly<LinkCounters> {
    this.#counters.queuedBytes = this.#sender.queuedBytes;
    this.#counters.inFlightBytes = this.#sender.inFlightBytes;
    return this.#counters;
  }
  get writable(): boolean {
    return this.#phase === "open" && this.#sender.writable;
  }
  send<T>(codec: Codec<T>, correlation: number, message: Readonly<T>, payload: Payload = EMPTY, flags = 0, hold?: Hold): boolean {
    return this.#phase === "open" && this.#sender.send(codec, flags, correlation, message, payload, hold);
  }
  request<T>(codec: Codec<T>, message: Readonly<T>, payload: Payload, timeoutMs: number, callback: AnswerCallback): boolean {
    if (this.#requests.full) return false;
    const correlation = this.nextCorrelation();
    if (!this.send(codec, correlation, message, payload)) return false;
    this.#requests.add(correlation, this.#sender.accepted, timeoutMs, callback);
    return true;
  }
  sendError(correlation: number, aboutType: number, code: ErrorCode, message: string): void {
    this.#sender.error(0, correlation, aboutType, code, message);
  }
  nextCorrelation(): number {
    do this.#correlation = this.#correlation === CORRELATION_MAX ? 1 : this.#correlation + 1;
    while (this.#requests.has(this.#correlation));
    return this.#correlation;
  }
  release(bytes: number): void {
    if (this.#phase === "closed") return;
    this.#receiveCredit.release(bytes);
    if (this.#receiveCredit.due) this.#sender.planFlush();
  }
  flush(): void {
    this.#sender.flush();
  }
  close(code: ErrorCode = "SHUTTING_DOWN", message = "closed"): void {
    this.#fail("local", code, message);
  }
  #addCredit(): void {
    const credit = this.#receiveCredit;
    if (this.#phase !== "open" || !credit.due) return;
    credit.told = credit.released;
    credit.wanted = false;
    this.#credit.released = credit.released;
    this.#sender.control(creditCodec, this.#credit);
  }

  // --- Events of the socket

  target(): Buffer {
    return this.#reader.target();
  }
  onConnect(): void {
    if (this.#options.side === "connect") this.#sender.control(helloCodec, this.#ownHello);
  }
  onRead(bytes: number): void {
    this.#read(bytes, undefined);
  }
  onChunk(chunk: Uint8Array): void {
    this.#read(chunk.length, chunk);
  }
  onClose(code: string | undefined): void {
    const kind = code === undefined || !refusedCodes.has(code) ? (code === "ETIMEDOUT" ? "timeout" : "reset") : "refused";
    this.#finish({ kind, code: "LINK_DOWN", message: `${this.#peerName()}: ${code ?? "the peer ended the connection"}` });
    this.#timer?.cancel();
    this.#options.onGone?.();
  }
  #read(bytes: number, chunk: Uint8Array | undefined): void {
    if (this.#phase === "closed") return;
    this.#counters.bytesIn += bytes;
    this.#pinger.heard();
    try {
      if (chunk === undefined) this.#reader.advance(bytes);
      else this.#reader.push(chunk);
      if (this.opened) this.#options.handlers.onReadEnd?.(this);
    } catch (cause) {
      const error = asSluiceError(cause);
      if (error.code === "INTERNAL") this.#context.logger.error("link handler failed", { peer: this.#peerName(), err: cause });
      this.#fail("protocol", error.code, error.message);
    }
  }

  // --- Frames

  #onFrame(frame: Frame, bytes: number): void {
    this.#counters.framesIn++;
    if (this.#phase !== "open") return this.#onHandshakeFrame(frame);
    if (frame.creditBytes > 0 && !this.#receiveCredit.onReceived(bytes))
      throw new SluiceError("OVERLOADED", `${this.#peerName()} sent more than its credit of ${this.#receiveCredit.windowBytes} bytes`);
    switch (frame.type) {
      case FrameType.credit:
        return this.#onCredit(frame);
      case FrameType.ping:
        return this.#onPing(frame);
      case FrameType.pong:
        return;
      case FrameType.data:
      case FrameType.produced:
        // An answer after its deadline is nobody's: its credit goes back.
        if (!this.#requests.answer(frame)) this.release(frame.creditBytes);
        return;
      case FrameType.error:
        return this.#onError(frame);
      case FrameType.hello:
      case FrameType.proof:
        throw new SluiceError("MALFORMED_FRAME", `${frameTypeName(frame.type)} on an open link`);
      default:
        if (frame.type > 0 && frame.type <= FRAME_TYPE_MAX) return this.#options.handlers.onFrame(this, frame);
        return this.sendError(frame.correlation, frame.type, "UNKNOWN_FRAME", `frame type ${frame.type} is unknown`);
    }
  }
  #onCredit(frame: Frame): void {
    const { released } = creditCodec.decode(frame, this.#credit);
    if (!this.#sender.onReleased(released)) throw new SluiceError("MALFORMED_FRAME", "credit for bytes that were not sent");
  }
  #onPing(frame: Frame): void {
    if ((frame.flags & PING_FLAG_WANT_CREDIT) === 0) return this.#sender.control(pongCodec, NO_FIELDS, 0, frame.correlation);
    this.#receiveCredit.wanted = true;
    if (this.#receiveCredit.due) this.#sender.planFlush();
  }
  #onError(frame: Frame): void {
    const { code: number } = errorCodec.decode(frame, this.#error);
    const code = errorCodeOf(number);
    const message = utf8In.decode(frame.payload.subarray(0, ERROR_MESSAGE_BYTES_MAX));
    if ((frame.flags & ERROR_FLAG_CLOSING) !== 0) {
      this.#abort(code === "SHUTTING_DOWN" ? "reset" : "protocol", code, message);
      return;
    }
    if (this.#phase !== "open") throw new SluiceError("MALFORMED_FRAME", "error frame before the handshake was complete");
    if (!this.#requests.fail(frame.correlation, { code, message, sent: true, answered: true })) this.#options.handlers.onFrame(this, frame);
  }

  // --- Handshake

  #onHandshakeFrame(frame: Frame): void {
    if (frame.type === FrameType.error) return this.#onError(frame);
    if (frame.type === FrameType.hello && this.#phase === "hello") return this.#onHello(frame);
    if (frame.type === FrameType.proof && this.#phase === "proof") return this.#onProof(frame);
    throw new SluiceError("MALFORMED_FRAME", `${frameTypeName(frame.type)} frame before the handshake was complete`);
  }
  #onHello(frame: Frame): void {
    const { side, purposes, expect } = this.#options;
    const peer = helloCodec.decode(frame, helloCodec.create());
    this.#peerHelloBytes = headerBytes(frame);
    this.peer = peer;
    const checked = checkHello(this.#ownHello, peer, expect);
    if ("code" in checked) return this.#fail("protocol", checked.code, checked.message);
    if (side === "accept") {
      if (purposes !== undefined && !purposes.includes(peer.purpose))
        return this.#fail("protocol", "INVALID_ARGUMENT", `no ${peer.purpose} links are taken here`);
      this.purpose = peer.purpose;
      this.#ownHello.purpose = peer.purpose;
      this.#sender.control(helloCodec, this.#ownHello);
    } else if (peer.purpose !== this.purpose) throw new SluiceError("MALFORMED_FRAME", "hello: another purpose came back");
    this.version = checked.version;
    this.#sender.grant(peer.windowBytes);
    if (this.#context.secret === undefined) return this.#open();
    if (side === "accept") this.#sender.control(proofCodec, { proof: this.#proof("accept") });
    this.#phase = "proof";
  }
  #proof(side: Side): Uint8Array {
    const own = helloBytes(this.#ownHello);
    const [connect, accept] = this.#options.side === "connect" ? [own, this.#peerHelloBytes] : [this.#peerHelloBytes, own];
    return makeProof(this.#context.secret ?? EMPTY, side, connect, accept);
  }
  #onProof(frame: Frame): void {
    const { side } = this.#options;
    const { proof } = proofCodec.decode(frame, proofCodec.create());
    if (!sameProof(proof, this.#proof(side === "connect" ? "accept" : "connect")))
      return this.#fail("protocol", "UNAUTHENTICATED", `${this.#peerName()} did not prove that it knows the cluster's secret`);
    if (side === "connect") this.#sender.control(proofCodec, { proof: this.#proof("connect") });
    this.#open();
  }
  #open(): void {
    this.#phase = "open";
    this.#timer?.cancel();
    this.#reader.allowFullFrames();
    this.#pinger.start();
    this.#options.onOpened?.(this);
    this.#options.handlers.onOpen?.(this);
  }

  // --- End

  /** Ends the link after telling the peer why. */
  #fail(kind: LinkCloseReason["kind"], code: ErrorCode, message: string): void {
    if (this.#phase === "closed") return;
    this.#sender.error(ERROR_FLAG_CLOSING, 0, 0, code, message);
    this.#sender.flush();
    this.#finish({ kind, code, message });
    this.#socket?.end();
    // A peer that does not read would keep the socket for ever.
    const { clock, timers } = this.#context;
    this.#timer = clock.setTimer(timers.linkConnectTimeoutMs, () => this.#socket?.destroy(), { unref: true });
  }
  /** Ends the link at once. */
  #abort(kind: LinkCloseReason["kind"], code: ErrorCode, message: string): void {
    this.#finish({ kind, code, message });
    this.#socket?.destroy();
  }
  #finish(reason: LinkCloseReason): void {
    if (this.#phase === "closed") return;
    const opened = this.#phase === "open";
    this.#phase = "closed";
    this.#timer?.cancel();
    this.#pinger.stop();
    this.#reader.stop();
    this.#sender.stop();
    this.#requests.failAll(reason.message);
    this.#sender.clear();
    if (!opened) {
      this.#options.onFailed?.(reason);
      return;
    }
    this.#options.onEnded?.(this);
    this.#options.handlers.onClose?.(this, reason);
  }
  #peerName(): string {
    return this.peer.memberId === "" ? this.address : `${this.peer.memberId} at ${this.address}`;
  }
}

import type { Socket } from "node:net";
import { allowAll, anonymous, type Authorizer } from "@sluice/rpc";
import type { ByteBudget, Clock, Logger } from "@sluice/runtime";
import type { KafkaCall } from "./api.ts";
import {
  decodeRequest,
  encodeLegacyResponse,
  encodeProbeResponse,
  encodeResponse,
  type ApiTable,
  type EncodedResponse,
  type ReceivedRequest,
} from "./dispatch.ts";
import { KafkaFrameReader } from "./frame-reader.ts";
import { kafkaLimits } from "./limits.ts";
import type { KafkaMetrics } from "./metrics.ts";
import { readShared } from "./shared-reads.ts";

export interface ConnectionOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly table: ApiTable;
  readonly metrics: KafkaMetrics;
  readonly authorizer?: Authorizer | undefined;
  readonly draining: AbortSignal;
  /** slab: into one buffer for all connections; data: into buffers of the socket's own. */
  readonly readPath: "slab" | "data";
  readonly largeFrames: ByteBudget;
  /** The proxy holds so much that requests should wait; `onRoom` calls once when there is room again. */
  readonly gate: { readonly full: boolean; onRoom(fn: () => void): void; offRoom(fn: () => void): void };
  readonly onClosed: (connection: KafkaConnection) => void;
}
export type CloseReason = "malformed" | "too large" | "unsupported" | "slow" | "idle" | "failed" | "no answer" | "shutdown";

/** One request from its arrival until its answer has been written. */
interface Slot {
  readonly request: ReceivedRequest;
  readonly bytes: number;
  readonly large: number;
  readonly arrivedMs: number;
  state: "waiting" | "running" | "done";
  /** When done; undefined = no answer. */
  response: EncodedResponse | undefined;
}

/**
 * One connection of a Kafka client. Answers leave in the order of the requests; requests start in it too:
 *
 *   socket ─► frames ─► [ done | running | running | waiting | waiting ] ─► answers, from the left
 *
 * A pipelined request (Produce) starts while others run, unless one that is not pipelined does; that one waits only for its like. The socket is
 * not read while its own requests, the proxy, or the answers that it has not taken are at their limits.
 */
export class KafkaConnection {
  readonly #options: ConnectionOptions;
  readonly #socket: Socket;
  readonly #reader: KafkaFrameReader;
  readonly #gone = new AbortController();
  /** Made once: a fetch on a busy connection must not cost a signal of its own. */
  readonly #isEnding: AbortSignal;
  readonly #slots: Slot[] = [];
  /** Slots that have begun, from the front of `#slots`. */
  #started = 0;
  #serialRunning = 0;
  /** A request that has begun keeps the next ones back. */
  #barriers = 0;
  #inFlightBytes = 0;
  #unsentBytes = 0;
  /** Of the large frame that is arriving: taken from the budget already, or asked for. */
  #arrivingLarge = 0;
  #waitingForBudget = false;
  #paused = false;
  #closed = false;
  #ending = false;
  /** When the own side of the connection ended; -1 = it has not. */
  #endedMs = -1;
  #frameBeganMs = 0;
  /** What came and is not cut into requests yet, because there are as many as may be. */
  #rest: Buffer | undefined;
  #cutting = false;
  #pumping = false;
  /** Bytes that the client had taken, and when that was seen to grow, or there was nothing to take. */
  #taken = 0;
  #takenMs: number;
  #activeMs: number;
  readonly #onRoom = (): void => this.#pump();

  /** `accepted` is paused, and not used any more. */
  constructor(accepted: Socket, options: ConnectionOptions) {
    const socket = readShared(accepted, options.readPath, (chunk) => this.#onData(chunk));
    this.#socket = socket;
    this.#options = options;
    this.#activeMs = options.clock.monotonicMs();
    this.#takenMs = this.#activeMs;
    this.#isEnding = AbortSignal.any([this.#gone.signal, options.draining]);
    this.#reader = new KafkaFrameReader(
      (frame) => this.#onFrame(frame),
      (bytes) => this.#onLarge(bytes),
      () => !this.#closed && this.#slots.length < kafkaLimits.inFlightRequestsMax,
    );
    socket.setNoDelay(true);
    socket.setKeepAlive(true, kafkaLimits.keepAliveMs);
    socket.on("drain", () => this.#pump());
    // What goes wrong with a socket ends in "close".
    socket.on("error", () => undefined);
    socket.on("close", () => this.#onClose());
  }
  get busy(): boolean {
    return this.#slots.length > 0 || this.#rest !== undefined;
  }
  /** Bytes of requests without an answer, and of answers that the client has not taken. */
  get heldBytes(): number {
    return this.#inFlightBytes + this.#unsent();
  }
  /** Looked at now and then: a frame that does not get on, a client that went silent or does not take its answers, an end that is not seen. */
  checkTime(nowMs: number): void {
    const { writableLength, bytesWritten } = this.#socket;
    const taken = bytesWritten - writableLength;
    // Nothing waits behind the answers that the client has not taken: it may let them lie.
    const isFree = !this.#paused && this.#started === this.#slots.length;
    if (taken !== this.#taken || writableLength === 0 || isFree) this.#takenMs = nowMs;
    this.#taken = taken;
    if (this.#endedMs >= 0 && nowMs - this.#endedMs > kafkaLimits.frameMs) this.close("shutdown");
    else if (this.#reader.begun && !this.#paused && nowMs - this.#frameBeganMs > kafkaLimits.frameMs) this.close("slow");
    else if (nowMs - this.#takenMs > kafkaLimits.frameMs + writableLength / kafkaLimits.takenBytesPerMsMin) this.close("slow");
    else if (!this.busy && nowMs - this.#activeMs > kafkaLimits.idleMs) this.close("idle");
  }
  /** Nothing is under way, and nothing came since then. */
  isQuietSince(ms: number): boolean {
    return !this.busy && this.#activeMs < ms;
  }
  /** Answers what has come, then ends. */
  finish(): void {
    this.#ending = true;
    if (!this.busy && this.#socket.writableLength === 0) this.close("shutdown");
    else this.#settle();
  }
  /** Ends when all is answered. What is on its way to the client arrives, unless it is not taken in time. */
  #settle(): void {
    if (!this.#ending || this.busy || this.#closed || this.#endedMs >= 0) return;
    this.#endedMs = this.#options.clock.monotonicMs();
    this.#socket.end();
  }
  close(reason: CloseReason, detail = ""): void {
    if (this.#closed) return;
    if (reason !== "shutdown") {
      this.#options.metrics.closed.labels(reason).inc();
      this.#options.logger.debug("kafka connection closed", { peer: this.#socket.remoteAddress, reason, detail });
    }
    this.#socket.destroy();
    this.#onClose();
  }

  #onData(chunk: Buffer): void {
    const { clock, metrics } = this.#options;
    if (this.#closed || this.#ending) return;
    metrics.requestBytes.inc(chunk.length);
    this.#activeMs = clock.monotonicMs();
    const isFirst = this.#rest === undefined;
    this.#rest = this.#rest === undefined ? chunk : Buffer.concat([this.#rest, chunk]);
    this.#cut();
    this.#pump();
    // The next read, of any connection, writes over the chunk.
    if (isFirst && this.#rest !== undefined) this.#rest = Buffer.from(this.#rest);
  }
  /** Requests out of what has come, as many as may be under way; the others stay bytes until there is room for them. */
  #cut(): void {
    if (this.#cutting) return;
    this.#cutting = true;
    try {
      while (this.#rest !== undefined && !this.#closed && this.#slots.length < kafkaLimits.inFlightRequestsMax) {
        const chunk = this.#rest;
        const { begun } = this.#reader;
        const used = this.#reader.push(chunk);
        this.#rest = used < chunk.length ? chunk.subarray(used) : undefined;
        if (this.#reader.begun && !begun) this.#frameBeganMs = this.#activeMs;
      }
    } catch (error) {
      this.#refuse(error);
    } finally {
      this.#cutting = false;
    }
  }
  #refuse(error: unknown): void {
    const code = (error as { code?: string }).code;
    const reason =
      code === "FRAME_TOO_LARGE" || code === "TOO_LARGE"
        ? "too large"
        : code === "UNKNOWN_FRAME" || code === "UNSUPPORTED_VERSION"
          ? "unsupported"
          : code === "MALFORMED" || code === "MALFORMED_FRAME"
            ? "malformed"
            : "failed";
    if (reason === "failed") this.#options.logger.error("kafka request failed", { err: error });
    this.close(reason, (error as Error).message);
  }

  /** A large frame has begun: read on only when the budget of all connections has room for it. */
  #onLarge(bytes: number): void {
    const { largeFrames } = this.#options;
    // A frame before it in the same chunk has ended the connection.
    if (this.#closed) return;
    this.#arrivingLarge = bytes;
    if (largeFrames.tryTake(bytes)) return;
    this.#waitingForBudget = true;
    this.#flow();
    largeFrames.take(bytes, this.#gone.signal).then(
      () => {
        this.#waitingForBudget = false;
        this.#frameBeganMs = this.#options.clock.monotonicMs();
        // It came while the connection was closing.
        if (this.#closed) largeFrames.release(bytes);
        else this.#flow();
      },
      () => undefined,
    );
  }

  #onFrame(frame: Uint8Array): void {
    if (this.#closed) return;
    const { table, clock } = this.#options;
    const large = this.#arrivingLarge;
    this.#arrivingLarge = 0;
    let request;
    try {
      request = table.receive(frame);
    } catch (error) {
      this.#options.largeFrames.release(large);
      return this.#refuse(error);
    }
    this.#inFlightBytes += frame.length;
    this.#slots.push({ request, bytes: frame.length, large, arrivedMs: clock.monotonicMs(), state: "waiting", response: undefined });
    this.#frameBeganMs = clock.monotonicMs();
    this.#pump();
  }

  /** Starts what may start, writes what can be written, reads on or not. A loop: what ends at once lets the next one start. */
  #pump(): void {
    if (this.#pumping) return;
    this.#pumping = true;
    for (;;) {
      const slot = this.#next();
      if (slot === undefined) {
        const { length } = this.#slots;
        this.#cut();
        if (this.#slots.length > length) continue;
        break;
      }
      this.#started += 1;
      this.#start(slot);
    }
    this.#pumping = false;
    this.#settle();
    this.#flow();
  }
  /** The request that may start now. */
  #next(): Slot | undefined {
    const { gate } = this.#options;
    const slot = this.#slots[this.#started];
    if (slot === undefined || this.#closed || this.#serialRunning > 0 || this.#barriers > 0) return undefined;
    if (this.#unsent() >= kafkaLimits.unsentBytesMax) return undefined;
    if (gate.full && this.#started > 0) {
      gate.onRoom(this.#onRoom);
      return undefined;
    }
    return slot;
  }
  #unsent(): number {
    return this.#unsentBytes + this.#socket.writableLength;
  }

  #start(slot: Slot): void {
    const { request } = slot;
    const { handler } = request;
    const pipelined = handler.pipelined === true;
    slot.state = "running";
    if (!pipelined) this.#serialRunning += 1;
    const done = (response: EncodedResponse | undefined): void => {
      if (!pipelined) this.#serialRunning -= 1;
      this.#finish(slot, response);
    };
    this.#options.metrics.requests.labels(handler.api.name).inc();
    try {
      if (request.kind === "probe") return done(encodeProbeResponse(request));
      if (request.kind === "legacy") return done(encodeLegacyResponse(request));
      const { clientId, message } = decodeRequest(request);
      const reply = handler.handle(message as never, this.#call(request, clientId));
      if (!(reply instanceof Promise)) return done(this.#encode(request, reply));
      void this.#await(request, reply, done);
    } catch (error) {
      this.#refuse(error);
    }
  }
  async #await(request: ReceivedRequest, reply: Promise<unknown>, done: (response: EncodedResponse | undefined) => void): Promise<void> {
    try {
      done(this.#encode(request, await reply));
    } catch (error) {
      this.#refuse(error);
    }
  }
  #encode(request: ReceivedRequest, reply: unknown): EncodedResponse | undefined {
    if (reply === undefined || this.#closed) return undefined;
    try {
      return encodeResponse(request, reply as object);
    } catch (error) {
      this.#refuse(error);
      return undefined;
    }
  }

  #call(request: ReceivedRequest, clientId: string): KafkaCall {
    const { authorizer = allowAll } = this.#options;
    const { access } = request.handler;
    const principal = anonymous;
    return {
      version: request.apiVersion,
      clientId,
      clientHost: this.#socket.remoteAddress ?? "",
      principal,
      signal: this.#gone.signal,
      ending: this.#isEnding,
      may: (name) => access === "open" || authorizer.authorize(principal, { ...access, name }),
      mayOther: (resource, operation, name) => authorizer.authorize(principal, { resource, operation, name }),
      startNextAfter: (done) => this.#barrier(done),
      disconnect: (reason) => this.close("no answer", reason),
    };
  }
  #barrier(done: Promise<unknown>): void {
    this.#barriers += 1;
    const passed = (): void => {
      this.#barriers -= 1;
      this.#pump();
    };
    done.then(passed, passed);
  }

  #finish(slot: Slot, response: EncodedResponse | undefined): void {
    const { clock, metrics } = this.#options;
    slot.state = "done";
    slot.response = response;
    this.#unsentBytes += response?.bytes ?? 0;
    metrics.requestSeconds.labels(slot.request.handler.api.name).observe((clock.monotonicMs() - slot.arrivedMs) / 1000);
    if (this.#closed) return;
    this.#write();
    this.#pump();
  }
  /** The answers at the front that are ready, in one write. */
  #write(): void {
    const { metrics, largeFrames } = this.#options;
    let count = 0;
    while (count < this.#slots.length && (this.#slots[count] as Slot).state === "done") count += 1;
    if (count === 0) return;
    this.#socket.cork();
    for (const slot of this.#slots.splice(0, count)) {
      this.#started -= 1;
      this.#inFlightBytes -= slot.bytes;
      if (slot.large > 0) largeFrames.release(slot.large);
      if (slot.response === undefined) continue;
      this.#unsentBytes -= slot.response.bytes;
      metrics.responseBytes.inc(slot.response.bytes);
      for (const chunk of slot.response.chunks) this.#socket.write(chunk);
    }
    this.#socket.uncork();
  }

  /** Stops or resumes the reading of the socket. */
  #flow(): void {
    if (this.#closed) return;
    const { gate } = this.#options;
    // One request always goes, also while the proxy is full: it may be what makes room.
    const gated = gate.full && this.busy;
    if (gated) gate.onRoom(this.#onRoom);
    const full =
      gated ||
      this.#waitingForBudget ||
      (this.busy && this.#inFlightBytes >= kafkaLimits.inFlightBytesMax) ||
      this.#slots.length >= kafkaLimits.inFlightRequestsMax ||
      this.#unsent() >= kafkaLimits.unsentBytesMax;
    if (full === this.#paused) return;
    this.#paused = full;
    if (full) this.#socket.pause();
    else {
      this.#frameBeganMs = this.#options.clock.monotonicMs();
      this.#socket.resume();
    }
  }

  #onClose(): void {
    if (this.#closed) return;
    this.#closed = true;
    const { gate, largeFrames, onClosed } = this.#options;
    gate.offRoom(this.#onRoom);
    for (const slot of this.#slots) if (slot.large > 0) largeFrames.release(slot.large);
    if (this.#arrivingLarge > 0 && !this.#waitingForBudget) largeFrames.release(this.#arrivingLarge);
    this.#arrivingLarge = 0;
    this.#rest = undefined;
    this.#gone.abort(new Error("the Kafka client's connection is gone"));
    onClosed(this);
  }
}

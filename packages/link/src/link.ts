import type { ErrorCode, Timers } from "@sluice/core/model";
import type { Clock, Logger, Random } from "@sluice/runtime";
import type { Frame, Payload } from "./frame.ts";
import type { Codec } from "./messages/codec.ts";
import type { HelloMessage, LinkPurpose } from "./messages/hello.ts";
import type { Hold } from "./slab.ts";

/** Who this process is, as its hello says it. */
export type LinkIdentity = Pick<HelloMessage, "clusterId" | "generation" | "service" | "memberId" | "instance" | "incarnation" | "zone">;

/** What every link of a process shares. */
export interface LinkContext {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly timers: Timers;
  readonly identity: LinkIdentity;
  /** The cluster's shared secret: both sides prove that they know it. Absent = no proof asked, and none can be given. */
  readonly secret?: Uint8Array;
  /** Bytes of credited frames that a peer may have in flight to this process, per link. Default `limits.linkCreditBytesDefault`. */
  readonly windowBytes?: number;
  /** Bytes that one link queues at most while it has no credit. Default LINK_QUEUE_BYTES_MAX. */
  readonly queueBytesMax?: number;
  /** Caps the versions offered, for tests of mixed versions. */
  readonly wireVersionMax?: number;
  /** `auto` (default) tests the slab read path once per process; the others force one, for tests. */
  readonly readPath?: ReadPath;
}
export type ReadPath = "auto" | "slab" | "data";

/** Largest credit window that a hello may announce. */
export const LINK_WINDOW_BYTES_MAX = 16 * 1024 * 1024;
/** Bytes queued on one link that waits for credit, or whose peer does not read its answers. */
export const LINK_QUEUE_BYTES_MAX = 16 * 1024 * 1024;
/** Requests without an answer, per link. */
export const LINK_REQUESTS_PENDING_MAX = 65_536;

/**
 * Why a link ended. `reset`: the peer's process or the network ended it. `refused`: nobody listens there. `timeout`: no answer to connect,
 * hello or pings. `local`: closed by this side's caller. `protocol`: one side broke the protocol or refused the other's hello.
 */
export interface LinkCloseReason {
  readonly kind: "reset" | "refused" | "timeout" | "local" | "protocol";
  readonly code: ErrorCode;
  readonly message: string;
}

/** Counters of one link: totals since it began, except `queuedBytes` and `inFlightBytes`, which are now. */
export interface LinkCounters {
  framesIn: number;
  framesOut: number;
  bytesIn: number;
  bytesOut: number;
  writes: number;
  /** Times that a frame had to wait for credit. */
  creditStalls: number;
  queuedBytes: number;
  /** Credited bytes sent and not yet released by the peer. */
  inFlightBytes: number;
}

export interface LinkHandlers {
  /**
   * A frame that is not the answer to a request. The frame object is reused: read it before returning; the payload stays valid. Give back
   * `frame.creditBytes` with `link.release` when the payload is done with. A thrown SluiceError MALFORMED_FRAME or any other
   * error closes the link.
   */
  onFrame(link: Link, frame: Frame): void;
  /** Once, after the handshake. */
  onOpen?(link: Link): void;
  /**
   * Once; every pending request has been failed before. Not called when the handshake failed on the connecting side (the promise
   * rejects).
   */
  onClose?(link: Link, reason: LinkCloseReason): void;
  /** `link.writable` became true again. */
  onWritable?(link: Link): void;
  /**
   * After all frames of one read were given to onFrame: the place to act on the run as a whole (one write per target for all of them).
   */
  onReadEnd?(link: Link): void;
}

export interface RequestFailure {
  readonly code: ErrorCode;
  readonly message: string;
  /**
   * False: no byte was handed to the socket, the request had no effect. True: the outcome is unknown (or, with an error frame,
   * refused).
   */
  readonly sent: boolean;
  /** The peer answered with an error frame: nothing was done. */
  readonly answered: boolean;
}
/** Exactly one of the two is given. The frame is reused, as in onFrame; release its credit. */
export type AnswerCallback = (frame: Frame | undefined, failure: RequestFailure | undefined) => void;

export interface Link {
  readonly peer: Readonly<HelloMessage>;
  readonly purpose: LinkPurpose;
  /** The version both speak. */
  readonly version: number;
  readonly address: string;
  readonly closed: boolean;
  readonly counters: Readonly<LinkCounters>;
  /** Free for the owner of the link: its own state of this peer. */
  state: unknown;
  /** False: no credit or a queue is waiting; the caller should stop reading its own upstream until onWritable. */
  readonly writable: boolean;
  /**
   * Queues one frame; it leaves with all others of this turn in one write. `payload` must not change until it has left; `hold` of a claimed
   * payload (`claimPayload`) is retained until then. False =
   * refused, nothing queued (link closed, or `queueBytesMax` reached): the caller answers OVERLOADED or tries elsewhere.
   * Throws FRAME_TOO_LARGE when it can never be sent.
   */
  send<T>(codec: Codec<T>, correlation: number, message: Readonly<T>, payload?: Payload, flags?: number, hold?: Hold): boolean;
  /**
   * Sends a frame with a correlation number of its own and calls `callback` once: with the answer, or with a failure at the
   * deadline, at an error frame and at the end of the link. False = refused, the callback is not called.
   */
  request<T>(codec: Codec<T>, message: Readonly<T>, payload: Payload, timeoutMs: number, callback: AnswerCallback): boolean;
  /** Answers a frame with an error of the catalogue. */
  sendError(correlation: number, aboutType: number, code: ErrorCode, message: string): void;
  /** Gives credit back: the sum of all `frame.creditBytes` that are done with. */
  release(bytes: number): void;
  /** A subscription number that is unique on this link (never 0, shared with request numbers). */
  nextCorrelation(): number;
  /** Writes what is queued now instead of at the end of the turn. */
  flush(): void;
  /** Ends the link; the peer sees `code` and `message`. Idempotent. */
  close(code?: ErrorCode, message?: string): void;
}

/** What the connecting side demands of the peer's hello; another peer at the address is refused. */
export interface ExpectedPeer {
  readonly service?: LinkIdentity["service"];
  readonly memberId?: string;
  readonly incarnation?: string;
}
export interface ConnectOptions {
  /** `host:port`, `[v6]:port` or `unix:/path`. */
  readonly address: string;
  readonly purpose: LinkPurpose;
  readonly handlers: LinkHandlers;
  readonly expect?: ExpectedPeer;
  readonly signal?: AbortSignal;
}

export interface ListenOptions {
  /** As for connect; port 0 takes a free one. A unix path left by a dead process is removed. */
  readonly address: string;
  readonly handlers: LinkHandlers;
  /** Purposes accepted; default both. */
  readonly purposes?: readonly LinkPurpose[];
  readonly connectionsMax?: number;
  /** Connections that have not said hello yet. */
  readonly handshakesMax?: number;
}
export interface LinkServer {
  /** With the real port. */
  readonly address: string;
  readonly links: ReadonlySet<Link>;
  /** Counters of links that have ended, and what was refused. */
  readonly totals: Readonly<{ accepted: number; refused: number }>;
  /** Stops listening, ends all links with SHUTTING_DOWN, resolves when the sockets are gone. Idempotent. */
  close(): Promise<void>;
}

/** `down` carries the reason: kinds reset and refused mean that the process is gone or going. */
export type LinkState =
  | { readonly kind: "connecting"; readonly attempt: number }
  | { readonly kind: "up"; readonly link: Link }
  | { readonly kind: "down"; readonly reason: LinkCloseReason; readonly attempt: number }
  | { readonly kind: "closed" };

import { SluiceError } from "@sluice/core/model";
import type { Timer } from "@sluice/runtime";
import { closeReasonOf, connectLink } from "./client.ts";
import type { ExpectedPeer, Link, LinkCloseReason, LinkContext, LinkHandlers, LinkState } from "./link.ts";
import type { LinkPurpose } from "./messages/hello.ts";

/** Waits between attempts: from the first to the largest, doubled each time, each shortened by up to a half at random. */
export const RECONNECT_FIRST_MS = 20;
export const RECONNECT_LARGEST_MS = 1_000;

export interface ReconnectingOptions {
  readonly address: string;
  readonly purpose: LinkPurpose;
  readonly handlers: LinkHandlers;
  readonly expect?: ExpectedPeer;
  /** At once when a link ends: failover waits for it. */
  readonly onState?: (state: LinkState, self: ReconnectingLink) => void;
}
interface Waiter {
  resolve(link: Link): void;
  reject(error: SluiceError): void;
  timer: Timer;
}

/**
 * A link that is opened again whenever it ends, until closed. Frames of an ended link are not sent again: that is for the caller
 * to decide.
 */
export class ReconnectingLink {
  readonly address: string;
  readonly purpose: LinkPurpose;
  readonly #context: LinkContext;
  readonly #options: ReconnectingOptions;
  readonly #handlers: LinkHandlers;
  readonly #abort = new AbortController();
  readonly #waiters = new Set<Waiter>();
  #state: LinkState = { kind: "connecting", attempt: 1 };
  #attempt = 1;
  #timer: Timer | undefined;

  constructor(context: LinkContext, options: ReconnectingOptions) {
    this.#context = context;
    this.#options = options;
    this.address = options.address;
    this.purpose = options.purpose;
    const { handlers } = options;
    this.#handlers = {
      onFrame: (link, frame) => handlers.onFrame(link, frame),
      onOpen: (link) => handlers.onOpen?.(link),
      onWritable: (link) => handlers.onWritable?.(link),
      onReadEnd: (link) => handlers.onReadEnd?.(link),
      onClose: (link, reason) => {
        handlers.onClose?.(link, reason);
        this.#down(reason);
      },
    };
    this.#connect();
  }
  get state(): LinkState {
    return this.#state;
  }
  /** Undefined while it is not up. */
  get link(): Link | undefined {
    return this.#state.kind === "up" ? this.#state.link : undefined;
  }
  /** The link as soon as it is up. Rejects with LINK_DOWN after `timeoutMs`, saying why it is down, and SHUTTING_DOWN when closed. */
  ready(timeoutMs: number): Promise<Link> {
    const state = this.#state;
    if (state.kind === "up") return Promise.resolve(state.link);
    if (state.kind === "closed") return Promise.reject(new SluiceError("SHUTTING_DOWN", `the link to ${this.address} is closed`));
    return new Promise((resolve, reject) => {
      const late = (): void => {
        this.#waiters.delete(waiter);
        const now = this.#state;
        const why = now.kind === "down" ? now.reason.message : "still connecting";
        reject(new SluiceError("LINK_DOWN", `no link to ${this.address} within ${timeoutMs} ms: ${why}`));
      };
      const waiter: Waiter = { resolve, reject, timer: this.#context.clock.setTimer(timeoutMs, late) };
      this.#waiters.add(waiter);
    });
  }
  /** Ends the link and stops connecting. Idempotent. */
  close(): void {
    if (this.#state.kind === "closed") return;
    const { link } = this;
    this.#set({ kind: "closed" });
    this.#timer?.cancel();
    this.#abort.abort();
    link?.close("SHUTTING_DOWN", "closed");
    this.#settle((w) => w.reject(new SluiceError("SHUTTING_DOWN", `the link to ${this.address} is closed`)));
  }

  #connect(): void {
    const { address, purpose, expect } = this.#options;
    const options = { address, purpose, handlers: this.#handlers, signal: this.#abort.signal };
    connectLink(this.#context, expect === undefined ? options : { ...options, expect }).then(
      (link) => this.#up(link),
      (error: unknown) => this.#down(closeReasonOf(error) ?? { kind: "protocol", code: "INVALID_ARGUMENT", message: String(error) }),
    );
  }
  #up(link: Link): void {
    if (this.#state.kind === "closed") {
      link.close("SHUTTING_DOWN", "closed");
      return;
    }
    // It may have ended between its opening and this turn.
    if (link.closed) return;
    this.#attempt = 1;
    this.#set({ kind: "up", link });
    this.#settle((w) => w.resolve(link));
  }
  #down(reason: LinkCloseReason): void {
    if (this.#state.kind === "closed") return;
    const attempt = this.#attempt++;
    this.#set({ kind: "down", reason, attempt });
    const { clock, random } = this.#context;
    const waitMs = Math.min(RECONNECT_LARGEST_MS, RECONNECT_FIRST_MS * 2 ** Math.min(attempt - 1, 16));
    this.#timer = clock.setTimer(waitMs * (1 - random.float() / 2), () => {
      this.#set({ kind: "connecting", attempt: attempt + 1 });
      this.#connect();
    });
  }
  #set(state: LinkState): void {
    this.#state = state;
    this.#options.onState?.(state, this);
  }
  #settle(act: (w: Waiter) => void): void {
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const waiter of waiters) {
      waiter.timer.cancel();
      act(waiter);
    }
  }
}

export interface LinkPoolOptions {
  /** Handlers of a new link. */
  readonly handlersFor: (address: string, purpose: LinkPurpose) => LinkHandlers;
  readonly onState?: (state: LinkState, self: ReconnectingLink) => void;
}
/** One reconnecting link for each address and purpose. */
export class LinkPool {
  readonly #context: LinkContext;
  readonly #options: LinkPoolOptions;
  readonly #links = new Map<string, ReconnectingLink>();

  constructor(context: LinkContext, options: LinkPoolOptions) {
    this.#context = context;
    this.#options = options;
  }
  /** `expect` is that of the first call for the address; drop it first when another member lives there now. */
  get(address: string, purpose: LinkPurpose, expect?: ExpectedPeer): ReconnectingLink {
    const key = `${purpose} ${address}`;
    let link = this.#links.get(key);
    if (link === undefined) {
      const { handlersFor, onState } = this.#options;
      link = new ReconnectingLink(this.#context, {
        address,
        purpose,
        handlers: handlersFor(address, purpose),
        ...(expect === undefined ? {} : { expect }),
        ...(onState === undefined ? {} : { onState }),
      });
      this.#links.set(key, link);
    }
    return link;
  }
  values(): Iterable<ReconnectingLink> {
    return this.#links.values();
  }
  /** Ends the links to an address, both purposes. */
  drop(address: string): void {
    for (const purpose of ["log", "bulk"]) {
      const key = `${purpose} ${address}`;
      this.#links.get(key)?.close();
      this.#links.delete(key);
    }
  }
  close(): void {
    for (const link of this.#links.values()) link.close();
    this.#links.clear();
  }
}

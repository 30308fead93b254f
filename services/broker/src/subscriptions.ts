import type { CommittedEffect, TailMark } from "@sluice/core/partition";
import { tailCodec, type Link, type TailMessage } from "@sluice/link";
import type { BrokerMetrics } from "./metrics.ts";

/**
 * The proxies that follow one partition's tail. A subscriber that cannot take a frame (no credit, a full queue) misses it: its next frame
 * tells by `firstOffset` that there is a gap, and the proxy reads that from the storage nodes. So a slow proxy costs the writer nothing.
 */
interface Subscriber {
  readonly link: Link;
  readonly number: number;
  /** Frames were left out since the last one sent. */
  gap: boolean;
}
const EMPTY = new Uint8Array(0);

export class Subscriptions {
  readonly #subscribers = new Map<string, Subscriber>();
  readonly #metrics: BrokerMetrics;
  readonly #message: TailMessage = tailCodec.create();

  constructor(metrics: BrokerMetrics) {
    this.#metrics = metrics;
  }
  get size(): number {
    return this.#subscribers.size;
  }

  /** Starts with the marks of now, so that the proxy knows what it must read elsewhere. Without a mark the partition is not served here yet. */
  add(link: Link, number: number, mark: TailMark | undefined): void {
    const subscriber: Subscriber = { link, number, gap: false };
    this.#subscribers.set(key(link, number), subscriber);
    if (mark !== undefined) this.#sendMark(subscriber, mark);
  }
  remove(link: Link, number: number): void {
    this.#subscribers.delete(key(link, number));
  }
  removeLink(link: Link): void {
    for (const [name, s] of this.#subscribers) if (s.link === link) this.#subscribers.delete(name);
  }
  endAll(code: number): void {
    for (const s of this.#subscribers.values()) {
      const m = this.#message;
      Object.assign(m, tailCodec.create());
      m.code = code;
      s.link.send(tailCodec, s.number, m, EMPTY);
    }
    this.#subscribers.clear();
  }

  push(effect: CommittedEffect): void {
    if (this.#subscribers.size === 0) return;
    for (const s of this.#subscribers.values()) {
      let first = effect.first;
      this.#setMark(effect.mark);
      for (const batch of effect.batches) {
        this.#message.firstOffset = first;
        const next = first + records(batch);
        // Data above this frame's end is not told yet: a mark never runs ahead of the data of its own subscription.
        this.#message.highWatermark = Math.min(effect.mark.committed + 1, next);
        this.#message.lastStableOffset = Math.min(effect.mark.lastStable + 1, next);
        if (!s.link.writable || !s.link.send(tailCodec, s.number, this.#message, batch)) {
          s.gap = true;
          this.#metrics.tailSkips.inc();
          break;
        }
        s.gap = false;
        first = next;
      }
    }
  }

  mark(mark: TailMark): void {
    for (const s of this.#subscribers.values()) this.#sendMark(s, mark);
  }

  /** After a link became writable again: tell subscribers with a gap where the log is now. */
  resume(link: Link, mark: TailMark | undefined): void {
    if (mark === undefined) return;
    for (const s of this.#subscribers.values()) if (s.link === link && s.gap) this.#sendMark(s, mark);
  }

  #sendMark(s: Subscriber, mark: TailMark): void {
    this.#setMark(mark);
    this.#message.firstOffset = mark.committed + 1;
    if (s.link.writable && s.link.send(tailCodec, s.number, this.#message, EMPTY)) s.gap = false;
    else s.gap = true;
  }
  #setMark(mark: TailMark): void {
    const m = this.#message;
    m.epoch = mark.segment.epoch;
    m.segmentK = mark.segment.k;
    m.segmentBase = mark.segmentBase;
    m.highWatermark = mark.committed + 1;
    m.lastStableOffset = mark.lastStable + 1;
    m.logStart = mark.logStart;
    m.code = 0;
  }
}

const key = (link: Link, number: number): string => `${link.peer.instance}/${link.address}/${number}`;
/** Offsets that a stamped batch spans: lastOffsetDelta (big-endian, at byte 23 of the header) + 1. */
function records(batch: Uint8Array): number {
  const at = 23;
  return (
    (((batch[at] as number) << 24) | ((batch[at + 1] as number) << 16) | ((batch[at + 2] as number) << 8) | (batch[at + 3] as number)) + 1
  );
}

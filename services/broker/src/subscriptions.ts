import type { CommittedEffect, TailMark } from "@sluice/core/partition";
import { encodeAnnotations } from "@sluice/core/log";
import { EMPTY, tailCodec, type Hold, type Link, type TailMessage } from "@sluice/link";
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
/** Small pieces that were committed together travel together, up to this size. */
const TAIL_FRAME_BYTES_MAX = 256 * 1024;

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
      this.#setMark(effect.mark);
      let first = effect.first;
      for (let from = 0; from < effect.runs.length;) {
        const to = groupEnd(effect.runs, from);
        const next = (effect.lasts[to - 1] as number) + 1;
        if (!this.#sendGroup(s, effect, from, to, first, next)) break;
        first = next;
        from = to;
      }
    }
  }
  /** The pieces [from, to) as one frame. */
  #sendGroup(s: Subscriber, effect: CommittedEffect, from: number, to: number, first: number, next: number): boolean {
    const m = this.#message;
    m.firstOffset = first;
    // Data above this frame's end is not told yet: a mark never runs ahead of the data of its own subscription.
    m.highWatermark = Math.min(effect.mark.committed + 1, next);
    m.lastStableOffset = Math.min(effect.mark.lastStable + 1, next);
    // One trace a frame: who delivers it goes on with that.
    const traced = effect.trace !== undefined && effect.tracedAt >= from && effect.tracedAt < to;
    if (traced) m.annotations = encodeAnnotations({ traceParent: effect.trace as Uint8Array });
    const single = to === from + 1;
    const payload = single ? (effect.runs[from] as Uint8Array) : effect.runs.slice(from, to);
    const hold = single ? (effect.handles[from] as Hold | undefined) : holdOfAll(effect.handles.slice(from, to));
    const sent = s.link.writable && s.link.send(tailCodec, s.number, m, payload, 0, hold);
    if (traced) m.annotations = EMPTY;
    if (!sent) this.#metrics.tailSkips.inc();
    s.gap = !sent;
    return sent;
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
/** Pieces of one frame: as many as stay under its size, at least one. */
function groupEnd(runs: readonly Uint8Array[], from: number): number {
  let to = from + 1;
  let bytes = (runs[from] as Uint8Array).length;
  while (to < runs.length && bytes + (runs[to] as Uint8Array).length <= TAIL_FRAME_BYTES_MAX) bytes += (runs[to++] as Uint8Array).length;
  return to;
}
/** One hold that retains and releases several. */
function holdOfAll(handles: readonly (object | undefined)[]): Hold | undefined {
  const holds = handles.filter((h) => h !== undefined) as Hold[];
  if (holds.length === 0) return undefined;
  return {
    retain: () => {
      for (const hold of holds) hold.retain();
    },
    release: () => {
      for (const hold of holds) hold.release();
    },
  };
}

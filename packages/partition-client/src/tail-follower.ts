import { decodeAnnotations } from "@sluice/core/log";
import { errorCodeOf, partitionKey, type ErrorCode, type MemberId, type PartitionId, type PartitionKey } from "@sluice/core/model";
import {
  FrameType,
  subscribeCodec,
  tailCodec,
  unsubscribeCodec,
  type Frame,
  type Link,
  type SubscribeMessage,
  type TailMessage,
} from "@sluice/link";
import type { Clock, Timer } from "@sluice/runtime";
import type { BrokerLinks } from "./broker-links.ts";

/** Marks of a partition as its owner last said them. Exclusive: `highWatermark` is the next offset after the last committed record. */
export interface Marks {
  /** Segment that they were published for: they say nothing about a segment of another epoch. */
  readonly epoch: number;
  readonly segmentK: number;
  readonly segmentBase: number;
  readonly highWatermark: number;
  readonly lastStableOffset: number;
  readonly logStart: number;
}
export interface TailListener {
  /**
   * Committed batches from `firstOffset` on. `release` gives the link's credit back: call it when the bytes are done with (copied or evicted).
   * `trace` is that of the first batch whose write is being recorded.
   */
  onData(firstOffset: number, batches: Uint8Array, marks: Marks, release: () => void, trace?: Uint8Array): void;
  /** Marks alone. A gap shows here: the next data begins at or after `marks.highWatermark`. */
  onMarks(marks: Marks): void;
  /** No owner pushes now; following goes on by itself. */
  onInterrupted(code: ErrorCode): void;
}
interface Followed {
  readonly partition: PartitionId;
  readonly listener: TailListener;
  /** Subscription number on `link`; 0 = not subscribed. */
  number: number;
  link: Link | undefined;
  broker: MemberId | undefined;
  fromOffset: number;
}

const EMPTY = new Uint8Array(0);
/** Wait before another attempt to subscribe, ms; a change of route or a link that comes up ends it at once. */
const RETRY_MS = 50;

/** Follows the committed tails of partitions, one subscription each, wherever their owners are. */
export class TailFollower {
  readonly #clock: Clock;
  readonly #links: BrokerLinks;
  readonly #followed = new Map<PartitionKey, Followed>();
  readonly #byLink = new Map<Link, Map<number, Followed>>();
  readonly #message: SubscribeMessage = subscribeCodec.create();
  readonly #tail: TailMessage = tailCodec.create();
  #sweep: Timer | undefined;
  #closed = false;

  constructor(clock: Clock, links: BrokerLinks) {
    this.#clock = clock;
    this.#links = links;
  }
  get size(): number {
    return this.#followed.size;
  }

  follow(partition: PartitionId, fromOffset: number, listener: TailListener): void {
    const key = partitionKey(partition);
    this.unfollow(partition);
    const followed: Followed = { partition, listener, number: 0, link: undefined, broker: undefined, fromOffset };
    this.#followed.set(key, followed);
    this.#subscribe(followed);
  }
  unfollow(partition: PartitionId): void {
    const key = partitionKey(partition);
    const followed = this.#followed.get(key);
    if (followed === undefined) return;
    this.#followed.delete(key);
    this.#detach(followed, true);
  }
  close(): void {
    this.#closed = true;
    this.#sweep?.cancel();
    this.#followed.clear();
    this.#byLink.clear();
  }

  /** The route of a partition changed: go to the new owner when it is another. */
  routeChanged(p: PartitionId): void {
    const followed = this.#followed.get(partitionKey(p));
    if (followed === undefined) return;
    const owner = this.#links.ownerOf(p);
    if (owner === undefined || (followed.link !== undefined && owner === followed.broker)) return;
    this.#detach(followed, true);
    this.#subscribe(followed);
  }
  linkUp(broker: MemberId): void {
    for (const followed of this.#followed.values()) {
      if (followed.link === undefined && this.#links.ownerOf(followed.partition) === broker) this.#subscribe(followed);
    }
  }
  linkDown(broker: MemberId): void {
    for (const followed of this.#followed.values()) {
      if (followed.broker !== broker || followed.link === undefined) continue;
      this.#detach(followed, false);
      followed.listener.onInterrupted("LINK_DOWN");
      this.#again();
    }
  }

  onFrame(link: Link, frame: Frame): void {
    if (frame.type !== FrameType.tail) {
      link.release(frame.creditBytes);
      return;
    }
    const followed = this.#byLink.get(link)?.get(frame.correlation);
    const { payload, creditBytes } = frame;
    const m = tailCodec.decode(frame, this.#tail);
    if (followed === undefined) {
      link.release(creditBytes);
      return;
    }
    if (m.code !== 0) {
      link.release(creditBytes);
      this.#detach(followed, false);
      followed.listener.onInterrupted(errorCodeOf(m.code));
      this.#again();
      return;
    }
    const marks: Marks = {
      epoch: m.epoch,
      segmentK: m.segmentK,
      segmentBase: m.segmentBase,
      highWatermark: m.highWatermark,
      lastStableOffset: m.lastStableOffset,
      logStart: m.logStart,
    };
    if (payload.length === 0) {
      link.release(creditBytes);
      followed.listener.onMarks(marks);
      return;
    }
    followed.fromOffset = m.highWatermark;
    // A copy: who keeps the batches keeps it, and the header's memory is used again.
    const trace = m.annotations.length === 0 ? undefined : decodeAnnotations(m.annotations).traceParent?.slice();
    let released = false;
    followed.listener.onData(
      m.firstOffset,
      payload,
      marks,
      () => {
        if (released) return;
        released = true;
        if (!link.closed) link.release(creditBytes);
      },
      trace,
    );
  }

  #subscribe(followed: Followed): void {
    const owner = this.#links.ownerOf(followed.partition);
    const link = owner === undefined ? undefined : this.#links.get(owner);
    if (link === undefined) {
      this.#again();
      return;
    }
    followed.broker = owner;
    const number = link.nextCorrelation();
    this.#message.topicId = followed.partition.topicId;
    this.#message.partition = followed.partition.partition;
    this.#message.fromOffset = followed.fromOffset;
    if (!link.send(subscribeCodec, number, this.#message, EMPTY)) {
      this.#again();
      return;
    }
    followed.number = number;
    followed.link = link;
    let numbers = this.#byLink.get(link);
    if (numbers === undefined) {
      numbers = new Map();
      this.#byLink.set(link, numbers);
    }
    numbers.set(number, followed);
  }

  #detach(followed: Followed, tell: boolean): void {
    const { link, number } = followed;
    if (link === undefined) return;
    const numbers = this.#byLink.get(link);
    numbers?.delete(number);
    if (numbers?.size === 0) this.#byLink.delete(link);
    followed.link = undefined;
    followed.number = 0;
    if (tell && !link.closed) link.send(unsubscribeCodec, number, unsubscribeCodec.create(), EMPTY);
  }

  #again(): void {
    if (this.#sweep !== undefined || this.#closed) return;
    this.#sweep = this.#clock.setTimer(RETRY_MS, () => {
      this.#sweep = undefined;
      for (const each of this.#followed.values()) if (each.link === undefined) this.#subscribe(each);
    });
  }
}

import { BatchCursor } from "@sluice/core/log";
import { partitionKey, type PartitionId, type PartitionKey } from "@sluice/core/model";
import type { Marks, TailFollower, TailListener } from "@sluice/partition-client";
import type { Clock, Timer } from "@sluice/runtime";

/**
 * The committed tails of the partitions that have readers near their end, as their owners push them.
 *
 *   partition A   [ 90..94 ][ 95..99 ][ 100..102 ] | high watermark 103        one run without gaps, its end is the mark
 *   partition B             [ 7..7 ][ 8..12 ]      | 13
 *                 oldest ───────────────────► newest                           one budget for all, evicted by age of arrival
 *
 * A push that does not follow the last one (the owner left some out for this proxy) drops the run: what lies before is read from storage.
 * Many readers of a partition cost one subscription and one copy of its tail. The link's credit is given back on arrival, since the
 * cache has a budget of its own: a reader that stops costs the owner nothing.
 */
interface Entry {
  readonly tail: PartitionTail;
  readonly first: number;
  /** Offset after the last record. */
  readonly next: number;
  batches: Uint8Array;
  /** Of a batch in it whose write is being recorded. */
  readonly trace: Uint8Array | undefined;
}
/** What readers hold. Marks never go back: first by epoch, then by high watermark. */
export interface Tail {
  readonly partition: PartitionId;
  readonly marks: Marks | undefined;
  /** Grows with everything that the owner says. */
  readonly version: number;
}
export interface TailRead {
  readonly runs: readonly Uint8Array[];
  readonly bytes: number;
  readonly nextOffset: number;
  /** Of the first entry that has one. */
  readonly trace: Uint8Array | undefined;
}

const EMPTY = new Uint8Array(0);

class PartitionTail implements Tail {
  readonly partition: PartitionId;
  marks: Marks | undefined;
  version = 0;
  readers = 0;
  idle: Timer | undefined;
  /** In order of offsets, from `head` on. */
  entries: Entry[] = [];
  head = 0;
  readonly waiters = new Set<() => void>();

  constructor(partition: PartitionId) {
    this.partition = partition;
  }
  get next(): number | undefined {
    return this.head < this.entries.length ? (this.entries[this.entries.length - 1] as Entry).next : undefined;
  }
}

export interface TailCacheOptions {
  readonly clock: Clock;
  readonly follower: Pick<TailFollower, "follow" | "unfollow">;
  readonly bytesMax: number;
  readonly idleMs: number;
}

export class TailCache {
  readonly #options: TailCacheOptions;
  readonly #tails = new Map<PartitionKey, PartitionTail>();
  /** All entries in order of arrival, from `#oldest` on; those of dropped runs stay as empty ones until they are passed. */
  #arrivals: Entry[] = [];
  #oldest = 0;
  #bytes = 0;
  readonly #cursor = new BatchCursor();

  constructor(options: TailCacheOptions) {
    this.#options = options;
  }
  get bytes(): number {
    return this.#bytes;
  }
  get partitions(): number {
    return this.#tails.size;
  }
  get waiting(): number {
    let sum = 0;
    for (const tail of this.#tails.values()) sum += tail.waiters.size;
    return sum;
  }

  /** Begins to follow a partition, unless somebody does already. Each join needs a `leave`. */
  join(partition: PartitionId, fromOffset: number): Tail {
    const key = partitionKey(partition);
    let tail = this.#tails.get(key);
    if (tail === undefined) {
      tail = new PartitionTail(partition);
      this.#tails.set(key, tail);
      this.#options.follower.follow(partition, fromOffset, this.#listener(tail));
    }
    tail.readers += 1;
    tail.idle?.cancel();
    tail.idle = undefined;
    return tail;
  }
  leave(joined: Tail): void {
    const tail = joined as PartitionTail;
    tail.readers -= 1;
    if (tail.readers > 0) return;
    tail.idle = this.#options.clock.setTimer(this.#options.idleMs, () => this.#forget(tail), { unref: true });
  }
  /** The partition is gone: waiting readers look again, and find out. */
  wake(partition: PartitionId): void {
    const tail = this.#tails.get(partitionKey(partition));
    if (tail !== undefined) wakeAll(tail);
  }
  close(): void {
    for (const tail of this.#tails.values()) {
      tail.idle?.cancel();
      this.#drop(tail);
      wakeAll(tail);
    }
    this.#tails.clear();
  }

  /** Whole batches from the one that holds `offset`, at least one, about `maxBytes`; undefined when the cache does not hold it. */
  read(joined: Tail, offset: number, maxBytes: number): TailRead | undefined {
    const tail = joined as PartitionTail;
    const at = find(tail, offset);
    if (at < 0) return undefined;
    const runs: Uint8Array[] = [];
    let bytes = 0;
    let nextOffset = offset;
    let trace: Uint8Array | undefined;
    for (let i = at; i < tail.entries.length; i += 1) {
      const entry = tail.entries[i] as Entry;
      const from = i === at ? this.#batchAt(entry.batches, offset) : 0;
      const run = this.#cut(entry.batches, from, maxBytes - bytes, bytes === 0);
      if (run.length === 0) break;
      runs.push(run);
      bytes += run.length;
      trace ??= entry.trace;
      nextOffset = this.#cursor.header.lastOffset + 1;
      if (from + run.length < entry.batches.length) break;
    }
    return runs.length === 0 ? undefined : { runs, bytes, nextOffset, trace };
  }

  /** Resolves when the tail's version is not `version` (any more), after `timeoutMs`, or when the signal aborts; never rejects. */
  change(joined: Tail, version: number, timeoutMs: number, signal?: AbortSignal): Promise<void> {
    return this.changeOfAny([{ tail: joined, version }], timeoutMs, signal);
  }

  /** The same for several tails at once: resolves when any of them has another version than the one given. */
  changeOfAny(
    joined: readonly { readonly tail: Tail; readonly version: number }[],
    timeoutMs: number,
    signal?: AbortSignal,
  ): Promise<void> {
    const changed = joined.some(({ tail, version }) => tail.version !== version);
    if (changed || signal?.aborted === true || timeoutMs <= 0) return Promise.resolve();
    return new Promise((resolve) => {
      const done = (): void => {
        for (const { tail } of joined) (tail as PartitionTail).waiters.delete(done);
        timer.cancel();
        signal?.removeEventListener("abort", done);
        resolve();
      };
      const timer = this.#options.clock.setTimer(timeoutMs, done, { unref: true });
      for (const { tail } of joined) (tail as PartitionTail).waiters.add(done);
      signal?.addEventListener("abort", done, { once: true });
    });
  }

  #listener(tail: PartitionTail): TailListener {
    return {
      onData: (firstOffset, batches, marks, release, trace) => {
        // Copied into the budget of this cache by reference: the link may go on.
        release();
        if (!this.#advance(tail, marks)) return;
        this.#add(tail, firstOffset, batches, marks.highWatermark, trace);
        wakeAll(tail);
      },
      onMarks: (marks) => {
        if (!this.#advance(tail, marks)) return;
        const { next } = tail;
        if (next !== undefined && next < marks.highWatermark) this.#drop(tail);
        wakeAll(tail);
      },
      // Nobody pushes now: readers look whether storage knows more, and wait again. Following goes on by itself.
      onInterrupted: () => wakeAll(tail),
    };
  }
  /** False: said by an older owner than one that was heard; nothing of it is used. */
  #advance(tail: PartitionTail, marks: Marks): boolean {
    const known = tail.marks;
    if (known !== undefined && marks.epoch < known.epoch) return false;
    if (known === undefined || marks.epoch > known.epoch || marks.highWatermark >= known.highWatermark) tail.marks = marks;
    return true;
  }

  #add(tail: PartitionTail, firstOffset: number, batches: Uint8Array, highWatermark: number, trace: Uint8Array | undefined): void {
    const cursor = this.#cursor.reset(batches);
    let next = firstOffset;
    let end = 0;
    while (cursor.next() && cursor.header.baseOffset === next && cursor.header.lastOffset < highWatermark) {
      next = cursor.header.lastOffset + 1;
      end = cursor.nextPosition;
    }
    const known = tail.next;
    if (end === 0 || (known !== undefined && next <= known)) return;
    if (known !== undefined && known !== firstOffset) this.#drop(tail);
    const entry: Entry = { tail, first: firstOffset, next, batches: batches.subarray(0, end), trace };
    tail.entries.push(entry);
    this.#arrivals.push(entry);
    this.#bytes += end;
    this.#evict();
  }
  #evict(): void {
    while (this.#bytes > this.#options.bytesMax && this.#oldest < this.#arrivals.length) {
      const entry = this.#arrivals[this.#oldest++] as Entry;
      if (entry.batches.length === 0) continue;
      const { tail } = entry;
      this.#bytes -= entry.batches.length;
      entry.batches = EMPTY;
      // Entries of one run arrive in order, so the oldest of all is the first of its run.
      tail.head += 1;
      if (tail.head > 64 && tail.head * 2 > tail.entries.length) {
        tail.entries = tail.entries.slice(tail.head);
        tail.head = 0;
      }
    }
    while (this.#oldest < this.#arrivals.length && (this.#arrivals[this.#oldest] as Entry).batches.length === 0) this.#oldest += 1;
    if (this.#oldest > 1_024 && this.#oldest * 2 > this.#arrivals.length) {
      this.#arrivals = this.#arrivals.slice(this.#oldest);
      this.#oldest = 0;
    }
  }
  #drop(tail: PartitionTail): void {
    for (let i = tail.head; i < tail.entries.length; i += 1) {
      const entry = tail.entries[i] as Entry;
      this.#bytes -= entry.batches.length;
      entry.batches = EMPTY;
    }
    tail.entries = [];
    tail.head = 0;
  }
  #forget(tail: PartitionTail): void {
    this.#options.follower.unfollow(tail.partition);
    this.#tails.delete(partitionKey(tail.partition));
    this.#drop(tail);
    this.#evict();
    wakeAll(tail);
  }

  #batchAt(batches: Uint8Array, offset: number): number {
    const cursor = this.#cursor.reset(batches);
    while (cursor.next()) if (cursor.header.lastOffset >= offset) return cursor.position;
    return batches.length;
  }
  /** The whole batches from `from` that fit; the first one in any case when `force`. Leaves the last one's header in the cursor. */
  #cut(batches: Uint8Array, from: number, maxBytes: number, force: boolean): Uint8Array {
    const cursor = this.#cursor.reset(batches, from);
    let end = from;
    let last = -1;
    while (cursor.next()) {
      if (cursor.nextPosition - from > maxBytes && !(force && end === from)) break;
      end = cursor.nextPosition;
      last = cursor.header.lastOffset;
    }
    cursor.header.lastOffset = last;
    return batches.subarray(from, end);
  }
}

function wakeAll(tail: PartitionTail): void {
  tail.version += 1;
  for (const waiter of tail.waiters) waiter();
}
/** Index of the entry that holds `offset`; -1 when none does. */
function find(tail: PartitionTail, offset: number): number {
  let lo = tail.head;
  let hi = tail.entries.length - 1;
  while (lo <= hi) {
    const mid = (lo + hi) >>> 1;
    const entry = tail.entries[mid] as Entry;
    if (offset < entry.first) hi = mid - 1;
    else if (offset >= entry.next) lo = mid + 1;
    else return mid;
  }
  return -1;
}

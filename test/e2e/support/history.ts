/**
 * What a run of producers and readers saw, and the checks over it (after the Kafka checks of Jepsen: lost writes, duplicates, inconsistent
 * offsets, order). A value is unique: `<producer>/<partition>/<number>`.
 */
export interface Ack {
  readonly partition: number;
  readonly offset: number;
  readonly value: string;
  /** Monotonic ms of the client. */
  readonly atMs: number;
}
export interface Failure {
  readonly value: string;
  readonly code: string;
  readonly atMs: number;
}
export interface Read {
  readonly partition: number;
  readonly offset: number;
  readonly value: string;
}
export interface Stall {
  readonly partition: number;
  readonly ms: number;
  /** When it began. */
  readonly fromMs: number;
}

export class History {
  readonly acks: Ack[] = [];
  readonly failures: Failure[] = [];

  /** Findings of the final read from offset 0 of everything; empty = all promises held. At most ten of each kind. */
  check(reads: readonly Read[]): string[] {
    const findings: string[] = [];
    const report = (kind: string, items: readonly string[]): void => {
      if (items.length > 0) findings.push(`${kind}: ${items.length} (${items.slice(0, 10).join(", ")})`);
    };
    const byValue = new Map<string, Read[]>();
    const byOffset = new Map<string, string>();
    const inconsistent: string[] = [];
    for (const read of reads) {
      const place = `${read.partition}@${read.offset}`;
      const before = byOffset.get(place);
      if (before !== undefined && before !== read.value) inconsistent.push(`${place} is ${before} and ${read.value}`);
      byOffset.set(place, read.value);
      const known = byValue.get(read.value);
      if (known === undefined) byValue.set(read.value, [read]);
      else known.push(read);
    }
    report("two values at one offset", inconsistent);
    report(
      "acknowledged and lost",
      this.acks.filter((a) => !byValue.has(a.value)).map((a) => `${a.value} ${a.partition}@${a.offset}`),
    );
    report(
      "acknowledged at another offset",
      this.acks
        .filter((a) => a.offset >= 0 && byValue.get(a.value)?.every((r) => r.offset !== a.offset || r.partition !== a.partition))
        .map((a) => `${a.value} ${a.partition}@${a.offset}`),
    );
    report(
      "duplicates",
      [...byValue].filter(([, all]) => new Set(all.map((r) => `${r.partition}@${r.offset}`)).size > 1).map(([value]) => value),
    );
    report("order", outOfOrder(reads));
    return findings;
  }

  /**
   * Longest time between two acknowledgements of a partition that touches the window, ms on the client's clock. It may have begun before
   * `fromMs`, and may end after `toMs`.
   */
  longestStall(fromMs = 0, toMs = Infinity): Stall {
    return this.longestStalls(fromMs, toMs).reduce((a, b) => (b.ms > a.ms ? b : a), { partition: -1, ms: 0, fromMs });
  }
  /** The same of each partition. */
  longestStalls(fromMs = 0, toMs = Infinity): Stall[] {
    const all: Stall[] = [];
    for (const [partition, times] of this.#timesByPartition()) {
      let longest: Stall = { partition, ms: 0, fromMs };
      let before: number | undefined;
      for (const at of times) {
        if (at >= fromMs) {
          // The first acknowledgement of all: nothing is known of the time before the window.
          const start = before ?? (fromMs > 0 ? fromMs : at);
          if (start > toMs) break;
          if (at - start > longest.ms) longest = { partition, ms: at - start, fromMs: start };
        }
        before = at;
      }
      all.push(longest);
    }
    return all.toSorted((a, b) => a.partition - b.partition);
  }
  /** Partitions with an acknowledgement in the window. */
  partitionsAcknowledged(fromMs: number): number {
    return new Set(this.acks.filter((a) => a.atMs >= fromMs).map((a) => a.partition)).size;
  }
  #timesByPartition(): Map<number, number[]> {
    const out = new Map<number, number[]>();
    for (const ack of this.acks) {
      const times = out.get(ack.partition);
      if (times === undefined) out.set(ack.partition, [ack.atMs]);
      else times.push(ack.atMs);
    }
    for (const times of out.values()) times.sort((a, b) => a - b);
    return out;
  }
}

/** Within a partition the records of one producer must come in the order in which it sent them. */
function outOfOrder(reads: readonly Read[]): string[] {
  const last = new Map<string, number>();
  const findings: string[] = [];
  const ordered = [...reads].sort((a, b) => a.partition - b.partition || a.offset - b.offset);
  for (const read of ordered) {
    const [producer, partition, number] = read.value.split("/") as [string, string, string];
    const key = `${producer}/${partition}`;
    const before = last.get(key);
    if (before !== undefined && Number(number) <= before) findings.push(`${read.value} after ${before}`);
    last.set(key, Number(number));
  }
  return findings;
}

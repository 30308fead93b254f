import { sameSegment, segmentKey } from "@sluice/core/model";
import type { SegmentRecord } from "@sluice/core/model";
import type { MetaTxnEffect, TailMark } from "@sluice/core/partition";
import { readInt64 } from "./batch-id.ts";

export interface Batch {
  /** Unique in a run; written into the batch. */
  readonly id: number;
  readonly producer: string;
  readonly idempotent: boolean;
  readonly records: number;
  firstSentMs: number;
  ackedMs: number;
  offset: number;
}

/**
 * Everything that was promised or seen, and the rules it must obey. Rules are numbered as in docs/protocol.md.
 */
export class History {
  readonly violations: string[] = [];
  readonly batches = new Map<number, Batch>();
  /** First offset of a batch to its id, as first seen anywhere: acknowledged, pushed or read. */
  readonly seen = new Map<number, { id: number; by: string }>();
  readonly acked: Batch[] = [];
  #highestMark = -1;
  #highestMarkEpoch = -1;
  readonly #sessionMarks = new Map<string, { epoch: number; committed: number }>();
  readonly #firstMarks = new Set<number>();
  #epoch = 0;
  readonly #owners = new Map<number, string>();
  readonly #ends = new Map<string, number>();
  /** Last offset of everything that was acknowledged so far. */
  highestAcked = -1;
  reads = 0;
  /** Answers to questions for the latest offset, and those of them that a frozen segment could not have given. */
  latest = 0;
  latestByRegister = 0;

  violation(what: string): void {
    if (this.violations.length < 20) this.violations.push(what);
  }

  /** A batch was seen at an offset: for ever the only one there (I3, I6), and there alone if its producer is idempotent (I13). */
  observe(id: number, offset: number, by: string): void {
    const before = this.seen.get(offset);
    if (before === undefined) this.seen.set(offset, { id, by });
    else if (before.id !== id) this.violation(`I3: offset ${offset} is batch ${before.id} (${before.by}) and batch ${id} (${by})`);
    const batch = this.batches.get(id);
    if (batch === undefined) return this.violation(`batch ${id} at ${offset} was never sent (${by})`);
    if (!batch.idempotent) return;
    if (batch.offset >= 0 && batch.offset !== offset) this.violation(`I13: batch ${id} is at ${batch.offset} and at ${offset} (${by})`);
    batch.offset = offset;
  }
  observeRun(run: Uint8Array, by: string): number {
    let last = -1;
    for (const b of batchesOf(run)) {
      this.observe(b.id, b.first, by);
      last = b.last;
    }
    return last;
  }

  acknowledged(batch: Batch, offset: number, nowMs: number): void {
    this.observe(batch.id, offset, `ack to ${batch.producer}`);
    this.highestAcked = Math.max(this.highestAcked, offset + batch.records - 1);
    if (batch.ackedMs >= 0) return;
    batch.ackedMs = nowMs;
    if (batch.offset < 0) batch.offset = offset;
    // I12: what was acknowledged before this was sent lies before it.
    for (let i = this.acked.length - 1; i >= 0; i--) {
      const other = this.acked[i] as Batch;
      if (other.ackedMs < batch.firstSentMs && other.offset > offset) {
        this.violation(`I12: batch ${batch.id} at ${offset} was sent after batch ${other.id} was acknowledged at ${other.offset}`);
        break;
      }
    }
    this.acked.push(batch);
  }

  /** I6: committed marks as an owner publishes them. */
  mark(broker: string, mark: TailMark): void {
    const session = this.#sessionMarks.get(broker);
    if (session !== undefined && session.epoch === mark.epoch && mark.committed < session.committed)
      this.violation(`I6: ${broker} published ${session.committed}, then ${mark.committed} in epoch ${mark.epoch}`);
    this.#sessionMarks.set(broker, { epoch: mark.epoch, committed: mark.committed });
    if (!this.#firstMarks.has(mark.epoch)) {
      this.#firstMarks.add(mark.epoch);
      if (mark.epoch > this.#highestMarkEpoch && mark.committed < this.#highestMark)
        this.violation(`I6: epoch ${mark.epoch} starts at ${mark.committed}, ${this.#highestMark} was published before`);
    }
    this.#highestMark = Math.max(this.#highestMark, mark.committed);
    this.#highestMarkEpoch = Math.max(this.#highestMarkEpoch, mark.epoch);
  }

  /** I1, I2, I5 after each transaction that applied. */
  transaction(txn: MetaTxnEffect, segments: ReadonlyMap<string, SegmentRecord>): void {
    const { state } = txn;
    if (state.epoch < this.#epoch) this.violation(`I1: epoch ${state.epoch} after ${this.#epoch}`);
    this.#epoch = Math.max(this.#epoch, state.epoch);
    const owner = this.#owners.get(state.epoch);
    if (owner !== undefined && owner !== state.ownerInstance) this.violation(`I1: epoch ${state.epoch} has two owners`);
    this.#owners.set(state.epoch, state.ownerInstance);
    if (txn.segments.length === 0) return;
    const all = [...segments.values()].sort((a, b) => a.base - b.base || a.segment.epoch - b.segment.epoch || a.segment.k - b.segment.k);
    let open = 0;
    for (const [i, s] of all.entries()) {
      if (s.phase === "OPEN") {
        open++;
        if (state.tail === undefined || !sameSegment(state.tail.segment, s.segment))
          this.violation(`I2: ${segmentKey(s.segment)} is open and not the tail`);
        continue;
      }
      const key = segmentKey(s.segment);
      const end = s.end ?? NaN;
      const known = this.#ends.get(key);
      if (known !== undefined && known !== end) this.violation(`I5: ${key} ended at ${known}, now at ${end}`);
      this.#ends.set(key, end);
      const next = all[i + 1];
      if (next !== undefined && next.base !== end + 1) this.violation(`I2: ${key} ends at ${end}, the next starts at ${next.base}`);
    }
    if (open > 1) this.violation(`I2: ${open} open segments`);
  }
}

export interface SeenBatch {
  readonly id: number;
  readonly first: number;
  readonly last: number;
}
export function batchesOf(run: Uint8Array): SeenBatch[] {
  const found: SeenBatch[] = [];
  const view = new DataView(run.buffer, run.byteOffset, run.byteLength);
  for (let at = 0; at < run.length;) {
    const size = view.getInt32(at + 8) + 12;
    const first = readInt64(view, at);
    found.push({ id: view.getUint32(at + 61), first, last: first + view.getInt32(at + 23) });
    at += size;
  }
  return found;
}

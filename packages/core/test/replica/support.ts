import type { Crc32c } from "../../src/log/index.ts";
import { writeBatchHeader } from "../../src/log/index.ts";
import type { JournalEntry } from "../../src/journal/index.ts";
import { epoch, incarnation, topicId } from "../../src/model/index.ts";
import { createProducers, encodeProducers, producerTables } from "../../src/producer/index.ts";
import type {
  AppendedAnswer,
  AppendRequest,
  ControlAnswer,
  ControlRequest,
  ReplicaEffect,
  ReplicaMutants,
  ReplicaOptions,
  ReplicaState,
  Scanned,
} from "../../src/replica/index.ts";
import { createReplica, restartReplica, step } from "../../src/replica/index.ts";

/** Any function of the bytes will do where no real CRC is needed. */
export const sum32: Crc32c = (bytes, seed = 0) => {
  let x = seed ^ 0x811c9dc5;
  for (let i = 0; i < bytes.length; i++) x = Math.imul(x ^ (bytes[i] as number), 0x01000193);
  return x >>> 0;
};
export interface BatchSpec {
  readonly first: number;
  readonly count?: number;
  readonly epoch?: number;
  /** Makes the content, and so the CRC, another. */
  readonly tag?: number;
  readonly producerId?: number;
  readonly sequence?: number;
  readonly bytes?: number;
  readonly timestamp?: number;
}
export function batch(spec: BatchSpec, crc: Crc32c = sum32): Uint8Array {
  const count = spec.count ?? 1;
  const bytes = new Uint8Array(61 + (spec.bytes ?? 8));
  bytes.fill(spec.tag ?? 1, 61);
  writeBatchHeader(
    bytes,
    0,
    {
      baseOffset: spec.first,
      lastOffsetDelta: count - 1,
      totalBytes: bytes.length,
      partitionLeaderEpoch: spec.epoch ?? 1,
      attributes: 0,
      baseTimestamp: spec.timestamp ?? 1000 + spec.first,
      maxTimestamp: spec.timestamp ?? 1000 + spec.first,
      producerId: spec.producerId ?? -1,
      producerEpoch: spec.producerId === undefined ? -1 : 0,
      baseSequence: spec.sequence ?? -1,
      recordsCount: count,
    },
    crc,
  );
  return bytes;
}
export function join(...parts: Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}

export const P = { topicId: topicId("00000000-0000-0000-0000-000000000001"), partition: 0 };
export const INC = incarnation("inc-1");
export const NO_PRODUCERS = encodeProducers(createProducers());
export const seg = (e: number, k = 0) => ({ epoch: epoch(e), k });

export const options = (mutants: ReplicaMutants = {}, more: Partial<ReplicaOptions> = {}): ReplicaOptions => ({
  incarnation: INC,
  firstSegmentNumber: 100,
  producers: producerTables,
  retryBatchesKept: 16,
  uncommittedBatchesMax: 1000,
  segmentsMax: 1000,
  mutants,
  ...more,
});

/** A node with a journal in memory: `sync()` makes what was written durable, `crash()` forgets the rest and restarts. */
export class TestNode {
  state: ReplicaState;
  readonly options: ReplicaOptions;
  /** Entries given to the journal, in order. */
  journal: { sequence: number; entry: JournalEntry }[] = [];
  synced = 0;
  failedMarker = false;
  readonly answers = new Map<number, readonly ControlAnswer[]>();
  readonly appended: AppendedAnswer[] = [];
  readonly alarms: string[] = [];
  readonly dropped: number[] = [];
  #ref = 0;

  constructor(mutants: ReplicaMutants = {}, more: Partial<ReplicaOptions> = {}) {
    this.options = options(mutants, more);
    this.state = createReplica(this.options);
  }
  #step(input: Parameters<typeof step>[1]): void {
    const out: ReplicaEffect[] = [];
    step(this.state, input, out);
    for (const e of out) {
      if (e.kind === "journal") this.journal.push({ sequence: e.sequence, entry: e.entry });
      else if (e.kind === "answer") this.answers.set(e.ref, e.answers);
      else if (e.kind === "appended") this.appended.push(...e.answers);
      else if (e.kind === "alarm") this.alarms.push(e.message);
      else this.dropped.push(e.segmentNumber);
    }
  }
  sync(): void {
    if (this.failedMarker) return;
    const last = this.journal.at(-1)?.sequence ?? 0;
    this.synced = this.journal.length;
    this.#step({ kind: "durable", upTo: last });
  }
  fail(): void {
    this.failedMarker = true;
    this.#step({ kind: "journal-failed" });
  }
  diskFull(full: boolean): void {
    this.#step({ kind: "disk-full", full });
  }
  originGone(origin: number): void {
    this.#step({ kind: "origin-gone", origin });
  }
  /** Restart: what was not synced is gone, or kept up to `keep` entries more. */
  crash(keep = 0, entries?: readonly Scanned[]): void {
    this.journal = this.journal.slice(0, this.synced + keep);
    this.synced = this.journal.length;
    this.state = restartReplica(this.options, entries ?? this.journal.map((j) => j.entry), this.failedMarker);
    this.journal = this.journal.map((j) => ({ sequence: 0, entry: j.entry }));
  }
  /** Starts a control call; undefined until its answer has left. */
  call(...requests: ControlRequest[]): () => readonly ControlAnswer[] | undefined {
    const ref = ++this.#ref;
    this.#step({ kind: "control", ref, nowMs: 5000, requests });
    return () => this.answers.get(ref);
  }
  /** A control call and the sync that it needs. */
  ask<T extends ControlRequest["op"]>(request: ControlRequest & { op: T }): Extract<ControlAnswer, { op: T }> {
    const answer = this.call(request);
    if (answer() === undefined) this.sync();
    const first = answer()?.[0];
    if (first === undefined) throw new Error("no answer after a sync");
    return first as Extract<ControlAnswer, { op: T }>;
  }
  append(request: Partial<AppendRequest> & { segmentNumber: number }, origin = 1): void {
    const payload = request.payload ?? new Uint8Array(0);
    const firstOffset = request.firstOffset ?? 0;
    this.#step({
      kind: "append",
      origin,
      nowMs: 6000,
      request: {
        epoch: epoch(1),
        base: 0,
        firstOffset,
        lastOffset: payload.length === 0 ? firstOffset - 1 : firstOffset,
        lac: -1,
        barrier: 0,
        ...request,
        payload,
      },
    });
  }
  lastAppended(): AppendedAnswer {
    const a = this.appended.at(-1);
    if (a === undefined) throw new Error("nothing was answered");
    return a;
  }
  create(e = 1, base: number | undefined = 0, k = 0): number {
    const a = this.ask({ op: "create", ...address(e, k), base, incarnation: INC, nonce: "n", producers: NO_PRODUCERS });
    if (a.code !== 0) throw new Error(`create refused: ${a.code} ${a.message}`);
    return a.segmentNumber;
  }
  /** Records first..last, one batch each, in one frame; not yet synced. */
  fill(segmentNumber: number, first: number, last: number, e = 1, lac = -1, base = 0): void {
    const parts: Uint8Array[] = [];
    for (let o = first; o <= last; o++) parts.push(batch({ first: o, epoch: e }));
    this.append({ segmentNumber, epoch: epoch(e), base, firstOffset: first, lastOffset: last, lac, payload: join(...parts) });
  }
}
export const address = (e: number, k = 0) => ({ partition: P, segment: seg(e, k) });
export const fence = (e: number, by: number, inc = INC, k = 0) =>
  ({ op: "fence", ...address(e, k), epoch: epoch(by), incarnation: inc }) as const;
export const seal = (e: number, end: number, by: number, k = 0) => ({ op: "seal", ...address(e, k), end, epoch: epoch(by) }) as const;
export const create = (e: number, base: number | undefined, nonce = "n", inc = INC, k = 0) =>
  ({ op: "create", ...address(e, k), base, incarnation: inc, nonce, producers: NO_PRODUCERS }) as const;

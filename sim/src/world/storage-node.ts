import type { JournalEntry } from "@sluice/core/journal";
import { batchBytesAt, newBatchHeader, parseBatchHeader } from "@sluice/core/log";
import { incarnation, memberId, segmentKey } from "@sluice/core/model";
import type { Incarnation, ReplicaId, SegmentRecord } from "@sluice/core/model";
import type { ControlAnswer, ControlRequest } from "@sluice/core/partition";
import { producerTables } from "@sluice/core/producer";
import { createReplica, mayDropCopy, readPermission, recoveryReadLimit, restartReplica, step } from "@sluice/core/replica";
import type {
  AppendRequest,
  AppendedAnswer,
  ReadAnswer,
  ReadRequest,
  ReplicaEffect,
  ReplicaMutants,
  ReplicaOptions,
  ReplicaState,
  Segment,
} from "@sluice/core/replica";
import type { Metadata } from "./metadata.ts";
import { Process } from "./process.ts";
import type { Rng } from "./random.ts";
import type { Scheduler } from "./scheduler.ts";

export interface StoredBatch {
  readonly first: number;
  readonly last: number;
  readonly bytes: Uint8Array;
}
export interface NodeOptions {
  readonly mutants: ReplicaMutants;
  /** Mean duration of a flush, and how often one takes long. */
  readonly flushMs: number;
  readonly stallChance: number;
  readonly stallMs: number;
  readonly reconcileMs: number;
}
const header = newBatchHeader();

/**
 * A storage node: the shipped replica machine over a model of its disk. Entries are written at once and durable when a flush ends; a power
 * cut keeps what
 * was flushed and any prefix of the rest (a scan ends at the first group that is missing), a killed process loses nothing.
 */
export class StorageNode {
  readonly process: Process;
  readonly zone: string;
  incarnation: Incarnation;
  state: ReplicaState;
  /** The journal has failed for good. */
  failed = false;
  #entries: JournalEntry[] = [];
  #synced = 0;
  /** Journal length when this life began: sequences of the machine count from here. */
  #start = 0;
  #flushing = false;
  #bytes = new Map<number, StoredBatch[]>();
  readonly #answers = new Map<number, (answer: ControlAnswer) => void>();
  readonly #origins: ((answer: AppendedAnswer) => void)[] = [];
  #refs = 0;
  #formats = 0;
  readonly #options: NodeOptions;
  readonly #scheduler: Scheduler;
  readonly #rng: Rng;
  readonly #metadata: Metadata;

  constructor(name: string, zone: string, options: NodeOptions, scheduler: Scheduler, rng: Rng, metadata: Metadata) {
    this.process = new Process(name);
    this.zone = zone;
    this.#options = options;
    this.#scheduler = scheduler;
    this.#rng = rng;
    this.#metadata = metadata;
    this.incarnation = this.#format();
    this.state = createReplica(this.#replicaOptions());
    this.#reconcileLater();
  }
  get name(): string {
    return this.process.name;
  }
  get replica(): ReplicaId {
    return { node: memberId(this.name), incarnation: this.incarnation };
  }
  #format(): Incarnation {
    return incarnation(`${this.name}-f${++this.#formats}`);
  }
  #replicaOptions(): ReplicaOptions {
    return {
      incarnation: this.incarnation,
      firstSegmentNumber: this.#formats * 10_000 + Number(this.name.slice(-1)) * 1000,
      producers: producerTables,
      retryBatchesKept: 64,
      uncommittedBatchesMax: 4096,
      mutants: this.#options.mutants,
    };
  }

  /** Disk pressure: no appends with data, no creates. A restart looks anew, and finds room. */
  setDiskFull(full: boolean): void {
    if (this.process.up) step(this.state, { kind: "disk-full", full }, []);
  }
  /** Kills the process; a power cut also loses a part of what was not flushed. */
  crash(powerCut: boolean): void {
    this.process.die();
    this.#flushing = false;
    this.#answers.clear();
    this.#origins.length = 0;
    if (powerCut) this.#entries.length = this.#synced + this.#rng.int(0, this.#entries.length - this.#synced);
  }
  /** The disk is gone: it comes back empty, under the old name, with a new incarnation. */
  wipe(): void {
    this.crash(true);
    this.#entries = [];
    this.incarnation = this.#format();
    this.failed = false;
  }
  start(): void {
    this.#synced = this.#entries.length;
    this.#start = this.#entries.length;
    this.state = restartReplica(this.#replicaOptions(), this.#entries, this.failed);
    this.#bytes = new Map();
    for (const e of this.#entries) this.#keep(e);
    this.process.up = true;
    this.#reconcileLater();
  }
  /** A write or sync error. */
  failJournal(): void {
    this.failed = true;
    this.#step({ kind: "journal-failed" });
  }

  append(request: AppendRequest, answer: (answer: AppendedAnswer) => void): void {
    this.#origins.push(answer);
    this.#step({ kind: "append", origin: this.#origins.length - 1, nowMs: this.#scheduler.now, request });
  }
  control(body: ControlRequest, answer: (answer: ControlAnswer) => void): void {
    if (body.kind === "recoveryRead") {
      const limit = recoveryReadLimit(this.state, body.request);
      const payload =
        limit.segment === undefined ? new Uint8Array(0) : this.#read(limit.segment, body.request.from, limit.upTo, body.request.maxBytes);
      return answer({ kind: "recoveryRead", answer: { code: limit.code, payload } });
    }
    this.#handle(body, answer);
  }
  /** What a fence would be answered, without fencing: the planted fault M1. */
  peek(body: Extract<ControlRequest, { kind: "fence" }>, answer: (answer: ControlAnswer) => void): void {
    const copy = restartReplica(this.#replicaOptions(), this.#entries, this.failed);
    const out: ReplicaEffect[] = [];
    step(copy, { kind: "control", ref: 1, nowMs: this.#scheduler.now, requests: [{ op: "fence", ...body.request }] }, out);
    step(copy, { kind: "durable", upTo: copy.sequence }, out);
    for (const e of out)
      if (e.kind === "answer" && e.answers[0] !== undefined) answer({ kind: "fence", answer: e.answers[0] } as ControlAnswer);
  }
  #handle(body: Exclude<ControlRequest, { kind: "recoveryRead" }>, answer: (answer: ControlAnswer) => void): void {
    const op = body.kind === "recoveryAppend" ? "recovery-append" : body.kind;
    const ref = ++this.#refs;
    this.#answers.set(ref, (a) => answer({ kind: body.kind, answer: a } as unknown as ControlAnswer));
    this.#step({ kind: "control", ref, nowMs: this.#scheduler.now, requests: [{ op, ...body.request } as never] });
  }
  read(request: ReadRequest): ReadAnswer {
    const allowed = readPermission(this.state, request);
    const payload =
      allowed.segment === undefined ? new Uint8Array(0) : this.#read(allowed.segment, request.from, allowed.limit, request.maxBytes);
    return { code: allowed.code, sealed: allowed.sealed, limit: allowed.limit, payload };
  }
  /** All batches of this copy up to `end`, for the last check. Undefined when the copy does not vouch for them. */
  copyUpTo(record: SegmentRecord, end: number): readonly StoredBatch[] | undefined {
    const s = this.state.partitions.values().next().value?.segments.get(segmentKey(record.segment));
    if (s === undefined || s.status === "FAILED" || s.status === "DELETED" || s.status === "REBUILD" || s.last < end) return undefined;
    return (this.#bytes.get(s.number) ?? []).filter((b) => b.last <= end);
  }
  segment(record: SegmentRecord): Segment | undefined {
    return this.state.partitions.values().next().value?.segments.get(segmentKey(record.segment));
  }

  #read(s: Segment, from: number, upTo: number, maxBytes: number): Uint8Array {
    const parts: Uint8Array[] = [];
    let size = 0;
    for (const b of this.#bytes.get(s.number) ?? []) {
      if (b.last < from || b.last > upTo) continue;
      if (size > 0 && size + b.bytes.length > maxBytes) break;
      parts.push(b.bytes);
      size += b.bytes.length;
    }
    const run = new Uint8Array(size);
    let at = 0;
    for (const p of parts) {
      run.set(p, at);
      at += p.length;
    }
    return run;
  }

  #step(input: Parameters<typeof step>[1]): void {
    const out: ReplicaEffect[] = [];
    step(this.state, input, out);
    for (const e of out) this.#perform(e);
  }
  #perform(e: ReplicaEffect): void {
    switch (e.kind) {
      case "journal":
        this.#entries.push(e.entry);
        this.#keep(e.entry);
        return this.#flush();
      case "appended":
        for (const a of e.answers) this.#origins[e.origin]?.(a);
        return;
      case "answer": {
        const answer = this.#answers.get(e.ref);
        this.#answers.delete(e.ref);
        const [first] = e.answers;
        if (first !== undefined) answer?.(first as unknown as ControlAnswer);
        return;
      }
      case "dropped":
        this.#bytes.delete(e.segmentNumber);
        return;
      case "alarm":
        this.onAlarm(`${this.name}: ${e.message}`);
    }
  }
  onAlarm: (message: string) => void = () => undefined;

  /** What the bytes on disk become by an entry. */
  #keep(e: JournalEntry): void {
    if (e.kind === "append") {
      const kept = this.#bytes.get(e.segmentNumber) ?? [];
      for (let at = 0; at < e.payload.length;) {
        const size = batchBytesAt(e.payload, at);
        parseBatchHeader(e.payload, at, header);
        kept.push({ first: header.baseOffset, last: header.lastOffset, bytes: e.payload.slice(at, at + size) });
        at += size;
      }
      this.#bytes.set(e.segmentNumber, kept);
    } else if (e.kind === "seal") {
      const kept = this.#bytes.get(e.segmentNumber);
      if (kept !== undefined)
        this.#bytes.set(
          e.segmentNumber,
          kept.filter((b) => b.last <= e.end),
        );
    } else if (e.kind === "delete") this.#bytes.delete(e.segmentNumber);
  }

  /** One flush at a time; what comes meanwhile is the next one. */
  #flush(): void {
    if (this.#flushing || this.failed) return;
    this.#flushing = true;
    const upTo = this.#entries.length;
    const { flushMs, stallChance, stallMs } = this.#options;
    let duration = this.#rng.between(flushMs / 2, flushMs * 1.5);
    if (this.#rng.chance(stallChance)) duration += this.#rng.between(0, stallMs);
    this.#scheduler.after(
      duration,
      this.process.inThisLife(() => {
        this.#flushing = false;
        if (this.failed) return;
        this.#synced = upTo;
        this.#step({ kind: "durable", upTo: upTo - this.#start });
        if (this.#entries.length > upTo) this.#flush();
      }),
    );
  }

  /** Copies whose owner was not heard of are looked up: sealed, kept or dropped by what their key says. */
  #reconcileLater(): void {
    this.#scheduler.after(
      this.#rng.between(0.5, 1.5) * this.#options.reconcileMs,
      this.process.inThisLife(() => {
        this.#reconcile();
        this.#reconcileLater();
      }),
    );
  }
  #reconcile(): void {
    if (this.#metadata.away) return;
    const { state } = this.#metadata;
    for (const p of this.state.partitions.values())
      for (const s of p.segments.values()) {
        if (s.status === "DELETED" || s.heardMs + this.#options.reconcileMs > this.#scheduler.now) continue;
        const record = this.#metadata.segments.get(s.key);
        const member = record?.replicas.some((r) => r.node === this.name && r.incarnation === this.incarnation) ?? false;
        if (
          record?.phase === "SEALED" &&
          record.end !== undefined &&
          (s.status === "OPEN" || s.status === "FENCED") &&
          state !== undefined
        ) {
          this.#handle({ kind: "seal", request: { partition: p.id, segment: s.id, end: record.end, epoch: state.epoch } }, () => undefined);
          continue;
        }
        const facts = {
          stateEpoch: state?.epoch,
          found: record !== undefined,
          sealed: record !== undefined && record.phase !== "OPEN",
          member,
          otherReplicas: record === undefined ? 0 : record.replicas.length - (member ? 1 : 0),
          keyRevision: 0,
        };
        if (!mayDropCopy(facts, s, this.#options.mutants)) continue;
        const request = { op: "delete", partition: p.id, segment: s.id, cause: "orphan", stateEpoch: state?.epoch ?? -1 } as const;
        const ref = ++this.#refs;
        this.#step({ kind: "control", ref, nowMs: this.#scheduler.now, requests: [request] });
      }
  }
}

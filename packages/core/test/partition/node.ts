import type { CandidateNode, ControlAnswer, ControlRequest } from "../../src/partition/index.ts";
import { incarnation, memberId } from "../../src/model/index.ts";
import { producerTables } from "../../src/producer/index.ts";
import { createReplica, recoveryReadLimit, step } from "../../src/replica/index.ts";
import type { AppendRequest, AppendedAnswer, ReplicaEffect, ReplicaState, Segment } from "../../src/replica/index.ts";
import { batchBytesAt, parseBatchHeader } from "../../src/log/index.ts";

/** A storage node for transcripts: the shipped replica machine over a journal that is durable at once. */
export class Node {
  readonly name: string;
  readonly zone: string;
  suspect = false;
  incarnation: string;
  state: ReplicaState;
  readonly #bytes = new Map<number, Uint8Array[]>();

  constructor(name: string, zone: string, index: number) {
    this.name = name;
    this.zone = zone;
    this.incarnation = `${name}1`;
    this.state = this.#fresh(index * 100);
  }
  #fresh(firstSegmentNumber: number): ReplicaState {
    return createReplica({
      incarnation: incarnation(this.incarnation),
      firstSegmentNumber,
      producers: producerTables,
      retryBatchesKept: 64,
      uncommittedBatchesMax: 10_000,
    });
  }
  get candidate(): CandidateNode {
    return {
      node: memberId(this.name),
      incarnation: incarnation(this.incarnation),
      zone: this.zone,
      freeBytes: 100,
      suspect: this.suspect,
    };
  }
  /** Formats the disk: another incarnation under the old name. */
  wipe(): void {
    this.incarnation = `${this.name}${Number(this.incarnation.slice(this.name.length)) + 1}`;
    this.state = this.#fresh(this.state.nextSegmentNumber + 1000);
    this.#bytes.clear();
  }
  /** Disk pressure: appends and creates are refused, fences and seals are not. */
  setDiskFull(full: boolean): void {
    step(this.state, { kind: "disk-full", full }, []);
  }
  /** A journal error: the node is not trusted any more. */
  breakDisk(): void {
    step(this.state, { kind: "journal-failed" }, []);
  }

  #run(effects: ReplicaEffect[]): ReplicaEffect[] {
    for (const e of effects) {
      if (e.kind !== "journal" || e.entry.kind !== "append") continue;
      const { payload } = e.entry;
      const kept = this.#bytes.get(e.entry.segmentNumber) ?? [];
      for (let at = 0; at < payload.length;) {
        const size = batchBytesAt(payload, at);
        kept.push(payload.slice(at, at + size));
        at += size;
      }
      this.#bytes.set(e.entry.segmentNumber, kept);
    }
    step(this.state, { kind: "durable", upTo: this.state.sequence }, effects);
    return effects;
  }
  append(request: AppendRequest): AppendedAnswer[] {
    const out: ReplicaEffect[] = [];
    step(this.state, { kind: "append", origin: 1, nowMs: 1, request }, out);
    return this.#run(out).flatMap((e) => (e.kind === "appended" ? e.answers : []));
  }
  control(body: ControlRequest): ControlAnswer {
    if (body.kind === "recoveryRead") return { kind: "recoveryRead", answer: this.#read(body.request) };
    const op = body.kind === "recoveryAppend" ? "recovery-append" : body.kind;
    const out: ReplicaEffect[] = [];
    step(this.state, { kind: "control", ref: 1, nowMs: 1, requests: [{ op, ...body.request } as never] }, out);
    for (const e of this.#run(out)) {
      if (e.kind !== "answer") continue;
      const [answer] = e.answers;
      if (answer !== undefined) return { kind: body.kind, answer } as ControlAnswer;
    }
    throw new Error("no answer");
  }
  #read(r: Extract<ControlRequest, { kind: "recoveryRead" }>["request"]): { code: number; payload: Uint8Array } {
    const limit = recoveryReadLimit(this.state, r);
    if (limit.code !== 0 || limit.segment === undefined) return { code: limit.code, payload: new Uint8Array(0) };
    return { code: 0, payload: this.batches(limit.segment, r.from, limit.upTo) };
  }
  batches(segment: Segment, from: number, upTo: number): Uint8Array {
    const kept = (this.#bytes.get(segment.number) ?? []).filter((b) => {
      const h = parseBatchHeader(b);
      return h.lastOffset >= from && h.lastOffset <= upTo;
    });
    const out = new Uint8Array(kept.reduce((n, b) => n + b.length, 0));
    let at = 0;
    for (const b of kept) {
      out.set(b, at);
      at += b.length;
    }
    return out;
  }
}

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { crc32c } from "@sluice/codec";
import { BatchCursor, writeBatchHeader } from "@sluice/core/log";
import { epoch, incarnation, scaleTimers, topicId } from "@sluice/core/model";
import { createProducers, encodeProducers } from "@sluice/core/producer";
import type { AppendedAnswer, ControlAnswer, ControlRequest, ReplicaMutants } from "@sluice/core/replica";
import { silentLogger, systemClock, systemRandom, type Logger } from "@sluice/runtime";
import { nodeDisk, type Disk } from "../src/disk/disk.ts";
import { openFormat } from "../src/disk/format.ts";
import { Engine, engineLimits, type EngineLimits } from "../src/engine.ts";
import type { StoreMetrics } from "../src/metrics.ts";

export interface BatchSpec {
  readonly first: number;
  readonly count?: number;
  readonly epoch?: number;
  readonly bytes?: number;
  readonly tag?: number;
  readonly timestamp?: number;
  readonly producerId?: number;
  readonly sequence?: number;
}
/** A sound batch; its records are noise, which nobody here decodes. */
export function batch(spec: BatchSpec): Uint8Array {
  const count = spec.count ?? 1;
  const bytes = new Uint8Array(61 + (spec.bytes ?? 100));
  for (let i = 61; i < bytes.length; i++) bytes[i] = (spec.first * 31 + i * 7 + (spec.tag ?? 0)) & 0xff;
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
    crc32c,
  );
  return bytes;
}
export function join8(parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const p of parts) {
    out.set(p, at);
    at += p.length;
  }
  return out;
}
/** First and last offset and number of batches in a run. */
export function offsetsOf(run: Uint8Array): { first: number; last: number; batches: number } {
  const cursor = new BatchCursor(run);
  const seen = { first: -1, last: -1, batches: 0 };
  while (cursor.next()) {
    if (seen.batches++ === 0) seen.first = cursor.header.baseOffset;
    else if (cursor.header.baseOffset !== seen.last + 1) throw new Error(`gap before ${cursor.header.baseOffset}`);
    seen.last = cursor.header.lastOffset;
  }
  cursor.expectEnd();
  return seen;
}

export const TOPIC = topicId("00000000-0000-4000-8000-000000000001");
export const partition = (n: number) => ({ topicId: TOPIC, partition: n });
export const address = (p: number, e = 1, k = 0) => ({ partition: partition(p), segment: { epoch: epoch(e), k } });
export const NO_PRODUCERS = encodeProducers(createProducers());

export const noMetrics: StoreMetrics = {
  appended() {},
  group() {},
  synced() {},
  refused() {},
  alarm() {},
  read() {},
  readRefused() {},
  upload() {},
  checkpoint() {},
  compacted() {},
};

export async function temporaryFolder(): Promise<{ path: string; [Symbol.asyncDispose](): Promise<void> }> {
  const path = await mkdtemp(join(tmpdir(), "sluice-store-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

export interface TestEngineOptions {
  readonly disk?: Disk;
  readonly limits?: Partial<EngineLimits>;
  readonly logger?: Logger;
  readonly mutants?: ReplicaMutants;
  readonly metrics?: StoreMetrics;
}
/** An engine on a folder, with the calls of a test. */
export class TestEngine {
  readonly engine: Engine;
  readonly incarnation: string;
  readonly appended = new Map<number, AppendedAnswer>();
  readonly origin: number;
  #waiting: (() => void)[] = [];

  private constructor(engine: Engine, inc: string) {
    this.engine = engine;
    this.incarnation = inc;
    this.origin = engine.host.addOrigin((answers) => {
      for (const a of answers) this.appended.set(a.segmentNumber, a);
      for (const wake of this.#waiting.splice(0)) wake();
    });
  }
  static async open(folder: string, options: TestEngineOptions = {}): Promise<TestEngine> {
    const disk = options.disk ?? nodeDisk;
    const format = await openFormat(disk, folder, { clusterId: "cluster", node: "store-1" }, systemRandom);
    const engine = await Engine.open({
      disk,
      folder,
      format,
      clock: systemClock,
      logger: options.logger ?? silentLogger,
      timers: scaleTimers(0.2),
      metrics: options.metrics ?? noMetrics,
      limits: { ...engineLimits, journalFileBytes: 1024 * 1024, ...options.limits },
      ...(options.mutants !== undefined && { mutants: options.mutants }),
    });
    return new TestEngine(engine, format.incarnation);
  }
  async ask<T extends ControlRequest["op"]>(request: ControlRequest & { op: T }): Promise<Extract<ControlAnswer, { op: T }>> {
    const [a] = await this.engine.host.control([request]);
    return a as Extract<ControlAnswer, { op: T }>;
  }
  async create(p: number, base = 0, e = 1, k = 0): Promise<number> {
    const inc = incarnation(this.incarnation);
    const a = await this.ask({ op: "create", ...address(p, e, k), base, incarnation: inc, nonce: "n", producers: NO_PRODUCERS });
    if (a.code !== 0) throw new Error(`create refused: ${a.code} ${a.message}`);
    return a.segmentNumber;
  }
  fence(p: number, by: number, e = 1, k = 0) {
    return this.ask({ op: "fence", ...address(p, e, k), epoch: epoch(by), incarnation: incarnation(this.incarnation) });
  }
  seal(p: number, end: number, by = 1, e = 1, k = 0) {
    return this.ask({ op: "seal", ...address(p, e, k), end, epoch: epoch(by) });
  }
  drop(p: number, e = 1, k = 0) {
    return this.ask({ op: "delete", ...address(p, e, k), cause: "released", stateEpoch: e });
  }
  /** Sends batches in one frame. */
  send(
    segmentNumber: number,
    batches: readonly Uint8Array[],
    options: { first: number; last: number; base?: number; e?: number; lac?: number },
  ): void {
    this.engine.host.append(this.origin, {
      segmentNumber,
      epoch: epoch(options.e ?? 1),
      base: options.base ?? 0,
      firstOffset: options.first,
      lastOffset: options.last,
      lac: options.lac ?? -1,
      barrier: 0,
      payload: join8(batches),
    });
  }
  /** Offsets first..last, one batch each. */
  fill(segmentNumber: number, first: number, last: number, more: { base?: number; e?: number; lac?: number; bytes?: number } = {}): void {
    const batches: Uint8Array[] = [];
    for (let o = first; o <= last; o++)
      batches.push(batch({ first: o, epoch: more.e ?? 1, ...(more.bytes !== undefined && { bytes: more.bytes }) }));
    this.send(segmentNumber, batches, { first, last, ...more });
  }
  /** Until the segment's answer says at least this, or a refusal. */
  async durable(segmentNumber: number, offset: number): Promise<AppendedAnswer> {
    for (;;) {
      const a = this.appended.get(segmentNumber);
      if (a !== undefined && (a.code !== 0 || a.durable >= offset)) return a;
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }
  read(p: number, from: number, options: { hw?: number; maxBytes?: number; e?: number; k?: number } = {}) {
    return this.engine.reader.read({
      ...address(p, options.e ?? 1, options.k ?? 0),
      from,
      maxBytes: options.maxBytes ?? 1024 * 1024,
      highWatermark: options.hw ?? -1,
      highWatermarkEpoch: options.e ?? 1,
    });
  }
  close(): Promise<void> {
    return this.engine.close();
  }
  /** Leaves the folder as a crash would. */
  abandon(): Promise<void> {
    return this.engine.abandon();
  }
}

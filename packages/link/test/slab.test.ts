import { describe, expect, test } from "@jest/globals";
import { limits } from "@sluice/core/model";
import { claimPayload, encodeFrame, FrameReader, produceCodec, SlabPool, type Frame, type PayloadHold } from "../src/index.ts";
import { topic } from "./support/context.ts";

const produce = { ...produceCodec.create(), topicId: topic };
const PAYLOAD_BYTES = 100_000;
const frameOf = (fill: number): Uint8Array => encodeFrame(produceCodec, produce, fill, new Uint8Array(PAYLOAD_BYTES).fill(fill));
/** Enough frames to leave a slab behind. */
const PER_SLAB = Math.ceil(limits.slabBytes / PAYLOAD_BYTES) + 1;

function setUp(onFrame: (frame: Frame) => void): { pool: SlabPool; read: (fill: number) => void } {
  const pool = new SlabPool();
  pool.poisonFreed();
  const reader = new FrameReader(onFrame, pool);
  reader.allowFullFrames();
  return { pool, read: (fill) => reader.push(frameOf(fill)) };
}
const intact = (payload: Uint8Array): boolean => payload.every((b) => b === payload[0]);

describe("slabs", () => {
  test("payloads that nobody claims are never written again", () => {
    const kept: Uint8Array[] = [];
    const { pool, read } = setUp((frame) => kept.push(frame.payload));
    for (let i = 1; i <= 3 * PER_SLAB; i++) read(i % 200);
    expect(pool.freeBytes).toBe(0);
    expect(kept.every((p, i) => p[0] === (i + 1) % 200 && intact(p))).toBe(true);
  });

  test("a slab is written again when all its payloads are released, and not before", () => {
    const holds: PayloadHold[] = [];
    const kept: Uint8Array[] = [];
    const { pool, read } = setUp((frame) => {
      kept.push(frame.payload);
      holds.push(claimPayload(frame));
    });
    for (let i = 1; i <= 2 * PER_SLAB; i++) read(i);
    expect(kept.every(intact)).toBe(true);
    const memory = new Set(kept.map((p) => p.buffer));
    expect(memory.size).toBeGreaterThan(1);
    const last = kept.at(-1) as Uint8Array;
    for (const [i, hold] of holds.entries()) if (kept[i]?.buffer !== last.buffer) hold.release();
    expect(pool.freeBytes).toBeGreaterThanOrEqual(limits.slabBytes);
    expect(intact(last)).toBe(true);
    // The next ones come out of the same memory.
    for (let i = 0; i < PER_SLAB; i++) read(7);
    expect(memory.has((kept.at(-1) as Uint8Array).buffer)).toBe(true);
    expect(kept.slice(2 * PER_SLAB).every((p) => p[0] === 7 && intact(p))).toBe(true);
  });

  test("one payload without a claim keeps the whole slab", () => {
    let count = 0;
    const { pool, read } = setUp((frame) => {
      if (++count !== 3) claimPayload(frame).release();
    });
    for (let i = 0; i < PER_SLAB; i++) read(1);
    expect(pool.freeBytes).toBe(0);
  });

  test("a hold that is retained waits for its last release; one release too many is an error", () => {
    let hold: PayloadHold | undefined;
    const { pool, read } = setUp((frame) => {
      const claimed = claimPayload(frame);
      if (hold === undefined) hold = claimed;
      else claimed.release();
    });
    read(1);
    hold?.retain();
    for (let i = 0; i < PER_SLAB; i++) read(2);
    expect(pool.freeBytes).toBe(0);
    hold?.release();
    expect(pool.freeBytes).toBe(0);
    hold?.release();
    expect(pool.freeBytes).toBeGreaterThan(0);
    expect(() => hold?.release()).toThrow(/more often/);
    expect(() => hold?.retain()).toThrow(/after its last release/);
  });

  test("frames of any size leave slabs that are used again", () => {
    const pool = new SlabPool();
    const reader = new FrameReader((frame) => claimPayload(frame).release(), pool);
    reader.allowFullFrames();
    const push = (bytes: number): void => reader.push(encodeFrame(produceCodec, produce, 1, new Uint8Array(bytes)));
    for (let i = 0; i < 200; i++) {
      push(1_000_000 + ((i * 104_729) % 1_000_000));
      for (let k = 0; k < 8; k++) push(PAYLOAD_BYTES);
    }
    expect(pool.counts.reused).toBeGreaterThan(pool.counts.made * 5);
    expect(pool.freeBytes).toBeLessThan(16 * limits.slabBytes);
  });
});

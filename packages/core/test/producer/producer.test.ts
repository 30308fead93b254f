import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { codeOf, limits } from "../../src/model/index.ts";
import {
  advanceProducers,
  checkSequence,
  createProducers,
  decodeProducers,
  dropInFlight,
  encodeProducers,
  expireProducers,
  lastSequenceOf,
  mergeProducers,
  nextSequence,
  noteInFlight,
  producerTables,
  SEQUENCE_MAX,
  truncateProducers,
} from "../../src/producer/index.ts";
import type { ProducerTable } from "../../src/producer/index.ts";

const stored = (table: ProducerTable, id: number, epoch: number, sequence: number, offset: number, records = 1, appendMs = 5): void =>
  advanceProducers(table, {
    firstOffset: offset,
    lastOffset: offset + records - 1,
    producerId: id,
    producerEpoch: epoch,
    baseSequence: sequence,
    appendMs,
  });

describe("sequence check", () => {
  test("the next sequence is fresh, a stored batch is a duplicate with its first offset, a gap is refused", () => {
    const t = createProducers();
    expect(checkSequence(t, 1, 0, 0, 2)).toEqual({ kind: "fresh" });
    stored(t, 1, 0, 0, 100, 2);
    expect(checkSequence(t, 1, 0, 0, 2)).toEqual({ kind: "duplicate", offset: 100 });
    expect(checkSequence(t, 1, 0, 2, 1)).toEqual({ kind: "fresh" });
    expect(checkSequence(t, 1, 0, 3, 1)).toEqual({ kind: "refused", code: "OUT_OF_ORDER_SEQUENCE" });
    // Same first sequence, other length: no retry of what is stored.
    expect(checkSequence(t, 1, 0, 0, 1)).toEqual({ kind: "refused", code: "DUPLICATE_SEQUENCE" });
  });

  test("sequences wrap after 2^31 - 1", () => {
    expect(nextSequence(SEQUENCE_MAX)).toBe(0);
    expect(lastSequenceOf(SEQUENCE_MAX, 3)).toBe(1);
    const t = createProducers();
    stored(t, 1, 0, SEQUENCE_MAX - 6, 3, 7);
    stored(t, 1, 0, SEQUENCE_MAX, 10, 3);
    expect(checkSequence(t, 1, 0, 2, 1)).toEqual({ kind: "fresh" });
    expect(checkSequence(t, 1, 0, SEQUENCE_MAX, 3)).toEqual({ kind: "duplicate", offset: 10 });
    expect(checkSequence(t, 1, 0, SEQUENCE_MAX - 5, 1)).toEqual({ kind: "refused", code: "DUPLICATE_SEQUENCE" });
    expect(checkSequence(t, 1, 0, 5, 1)).toEqual({ kind: "refused", code: "OUT_OF_ORDER_SEQUENCE" });
  });

  test("an older epoch is refused, a newer one starts at 0", () => {
    const t = createProducers();
    stored(t, 1, 3, 0, 10);
    expect(checkSequence(t, 1, 2, 1, 1)).toEqual({ kind: "refused", code: "INVALID_PRODUCER_EPOCH" });
    expect(checkSequence(t, 1, 4, 1, 1)).toEqual({ kind: "refused", code: "OUT_OF_ORDER_SEQUENCE" });
    expect(checkSequence(t, 1, 4, 0, 1)).toEqual({ kind: "fresh" });
  });

  test("a batch in flight is neither stored nor unknown, and dies with its attempt", () => {
    const t = createProducers();
    noteInFlight(t, 1, 0, 0, 2, 50);
    expect(checkSequence(t, 1, 0, 0, 2)).toEqual({ kind: "inFlight", offset: 50 });
    expect(checkSequence(t, 1, 0, 2, 1)).toEqual({ kind: "fresh" });
    dropInFlight(t);
    expect(checkSequence(t, 1, 0, 0, 2)).toEqual({ kind: "fresh" });
    expect(t.entries.size).toBe(0);
  });

  test("only the last five batches are remembered", () => {
    const t = createProducers();
    for (let i = 0; i < 7; i++) stored(t, 1, 0, i, 10 + i);
    expect(checkSequence(t, 1, 0, 2, 1)).toEqual({ kind: "duplicate", offset: 12 });
    expect(checkSequence(t, 1, 0, 1, 1)).toEqual({ kind: "refused", code: "DUPLICATE_SEQUENCE" });
  });

  test("an unknown producer starts at 0, or where somebody vouches for it; when one was forgotten it has to start anew", () => {
    const t = createProducers();
    const unknown = { kind: "refused", code: "UNKNOWN_PRODUCER" };
    expect(checkSequence(t, 9, 0, 4, 1)).toEqual(unknown);
    expect(checkSequence(t, 9, 0, 4, 1, true)).toEqual({ kind: "fresh" });
    stored(t, 1, 0, 0, 10, 1, 100);
    // Vouched for or not, one that is known has its place.
    expect(checkSequence(t, 1, 0, 4, 1, true)).toEqual({ kind: "refused", code: "OUT_OF_ORDER_SEQUENCE" });
    expect(expireProducers(t, 101)).toBe(1);
    expect(checkSequence(t, 1, 0, 1, 1)).toEqual(unknown);
    expect(checkSequence(t, 9, 0, 4, 1, true)).toEqual(unknown);
    expect(checkSequence(t, 1, 1, 0, 1)).toEqual({ kind: "fresh" });
  });

  test("what is earlier than the first sequence of an epoch was never stored: no duplicate, through a snapshot too", () => {
    const t = createProducers();
    stored(t, 1, 0, 3, 10, 2);
    for (let i = 5; i < 12; i++) stored(t, 1, 0, i, 10 + i);
    const gap = { kind: "refused", code: "OUT_OF_ORDER_SEQUENCE" };
    for (const table of [t, decodeProducers(encodeProducers(t))]) {
      expect(checkSequence(table, 1, 0, 0, 3)).toEqual(gap);
      expect(checkSequence(table, 1, 0, 3, 2)).toEqual({ kind: "refused", code: "DUPLICATE_SEQUENCE" });
      expect(checkSequence(table, 1, 0, 12, 1)).toEqual({ kind: "fresh" });
    }
    const flying = createProducers();
    noteInFlight(flying, 1, 0, 3, 2, 10);
    expect(checkSequence(decodeProducers(encodeProducers(flying, { inFlight: true })), 1, 0, 0, 3)).toEqual(gap);
    // So long ago that the numbers come round: everything behind is old.
    stored(t, 1, 0, 2 ** 29 + 100, 1_000);
    expect(checkSequence(t, 1, 0, 1, 1)).toEqual({ kind: "refused", code: "DUPLICATE_SEQUENCE" });
    expect(encodeProducers(t)).toHaveLength(16 + 19 + 5 * 24);
    // A new epoch begins at 0.
    stored(t, 1, 1, 0, 1_001);
    expect(t.entries.get(1)?.firstSequence).toBe(0);
  });

  test("the least recently used producer gives way", () => {
    const t = createProducers(2);
    stored(t, 1, 0, 0, 1);
    stored(t, 2, 0, 0, 2);
    stored(t, 1, 0, 1, 3);
    stored(t, 3, 0, 0, 4);
    expect([...t.entries.keys()]).toEqual([1, 3]);
    expect(t.forgotten).toBe(true);
  });

  test("a control batch moves the epoch alone", () => {
    const t = createProducers();
    stored(t, 1, 0, 0, 1);
    stored(t, 1, 1, -1, 2);
    expect(checkSequence(t, 1, 0, 1, 1)).toEqual({ kind: "refused", code: "INVALID_PRODUCER_EPOCH" });
  });
});

describe("snapshot", () => {
  const tables = fc
    .array(fc.record({ id: fc.integer({ min: 0, max: 5 }), records: fc.integer({ min: 1, max: 4 }), epoch: fc.constantFrom(0, 0, 0, 1) }), {
      maxLength: 40,
    })
    .map((steps) => {
      const t = createProducers();
      const next = new Map<string, number>();
      let offset = 0;
      for (const s of steps) {
        const key = `${s.id}/${s.epoch}`;
        const sequence = next.get(key) ?? 0;
        if (checkSequence(t, s.id, s.epoch, sequence, s.records).kind !== "fresh") continue;
        stored(t, s.id, s.epoch, sequence, offset, s.records, offset + 7);
        next.set(key, sequence + s.records);
        offset += s.records;
      }
      return { table: t, end: offset };
    });

  test("what is encoded is decoded", () =>
    fc.assert(
      fc.property(tables, ({ table }) => {
        const back = decodeProducers(encodeProducers(table));
        expect([...back.entries.values()]).toEqual([...table.entries.values()]);
      }),
    ));

  test("advancing over batches that it knows already changes nothing", () =>
    fc.assert(
      fc.property(tables, ({ table }) => {
        const bytes = encodeProducers(table);
        for (const e of table.entries.values())
          for (const b of e.batches) stored(table, e.id, e.epoch, b.firstSequence, b.firstOffset, b.lastOffset - b.firstOffset + 1, 999);
        expect(encodeProducers(table)).toEqual(bytes);
      }),
    ));

  test("hostile bytes are refused with a code, never more", () =>
    fc.assert(
      fc.property(tables, fc.array(fc.tuple(fc.nat(400), fc.nat(255)), { maxLength: 6 }), fc.nat(60), ({ table }, edits, cut) => {
        const bytes = encodeProducers(table).slice();
        for (const [at, value] of edits) if (at < bytes.length) bytes[at] = value;
        try {
          decodeProducers(bytes.subarray(0, Math.max(0, bytes.length - (cut > 40 ? cut : 0))));
        } catch (e) {
          expect(codeOf(e)).toBe("MALFORMED_FRAME");
        }
      }),
    ));

  test("batches in flight count where the next segment starts after them", () => {
    const t = createProducers();
    stored(t, 1, 0, 0, 10);
    noteInFlight(t, 1, 0, 1, 1, 11);
    noteInFlight(t, 2, 0, 0, 1, 12);
    expect(decodeProducers(encodeProducers(t)).entries.get(1)?.batches).toHaveLength(1);
    expect(decodeProducers(encodeProducers(t)).entries.has(2)).toBe(false);
    const all = decodeProducers(encodeProducers(t, { inFlight: true }));
    expect(all.entries.get(1)?.batches).toHaveLength(2);
    expect(checkSequence(all, 2, 0, 0, 1)).toEqual({ kind: "duplicate", offset: 12 });
  });

  test("over the limit the oldest producers are left out, and it says so", () => {
    const t = createProducers();
    for (let i = 0; i < 30_000; i++) stored(t, i, 0, 0, i);
    const bytes = encodeProducers(t);
    expect(bytes.length).toBeLessThanOrEqual(limits.producerSnapshotBytesMax);
    const back = decodeProducers(bytes);
    expect(back.forgotten).toBe(true);
    expect(back.entries.has(29_999)).toBe(true);
    expect(back.entries.has(0)).toBe(false);
  });

  test("merge takes the newer of two, truncate forgets a suffix", () => {
    const a = createProducers();
    const b = createProducers();
    stored(a, 1, 0, 0, 10);
    stored(b, 1, 0, 0, 10);
    stored(b, 1, 0, 1, 11);
    stored(a, 2, 1, 0, 12);
    stored(b, 2, 0, 0, 3);
    mergeProducers(a, b);
    expect(checkSequence(a, 1, 0, 2, 1)).toEqual({ kind: "fresh" });
    expect(a.entries.get(2)?.epoch).toBe(1);
    truncateProducers(a, 10);
    expect(checkSequence(a, 1, 0, 1, 1)).toEqual({ kind: "fresh" });
  });

  test("the storage node's view of it", () => {
    const table = producerTables.decode(encodeProducers(createProducers()));
    table.advance({ firstOffset: 5, lastOffset: 6, producerId: 3, producerEpoch: 0, baseSequence: 0, appendMs: 1 });
    expect(checkSequence(decodeProducers(table.encode()), 3, 0, 0, 2)).toEqual({ kind: "duplicate", offset: 5 });
  });
});

import { describe, expect, jest, test } from "@jest/globals";
import * as fc from "fast-check";
import type { JournalEntry, ScanEnd, ScanMutants } from "../../src/journal/index.ts";
import {
  decodeEntry,
  decodeFileHeader,
  decodeGroupHeader,
  encodeEntryHead,
  encodeFileHeader,
  encodeGroupHeader,
  FILE_HEADER_BYTES,
  GROUP_HEADER_BYTES,
  journalSalt,
  padded,
  scanJournal,
} from "../../src/journal/index.ts";
import { batch, join, sum32 } from "../replica/support.ts";

jest.setTimeout(30_000);

const SALT = journalSalt("inc-1", sum32);
const append = (segmentNumber: number, first: number, count = 1, bytes = 8): JournalEntry => ({
  kind: "append",
  segmentNumber,
  epoch: 1,
  firstOffset: first,
  lastOffset: first + count - 1,
  lac: first - 1,
  appendMs: 1234.5,
  recovery: false,
  payload: join(...Array.from({ length: count }, (_, i) => batch({ first: first + i, bytes }))),
});
const encode = (e: JournalEntry): Uint8Array => {
  const head = encodeEntryHead(e, sum32);
  return e.kind === "append" ? join(head, e.payload) : head;
};

const text = fc.stringMatching(/^[a-z0-9-]{0,36}$/);
const u31 = fc.integer({ min: 0, max: 0x7fffffff });
const off = fc.integer({ min: 0, max: 2 ** 52 });
const blob = fc.uint8Array({ maxLength: 100 });
const partition = fc.record({ topicId: text, partition: u31 });
const segment = fc.record({ epoch: u31, k: u31 });
const status = fc.constantFrom("OPEN", "FENCED", "FENCED_EMPTY", "REBUILD", "SEALED", "INCOMPLETE", "FAILED", "DELETED");
const maybe = (a: fc.Arbitrary<number>) => fc.option(a, { nil: undefined });
const floats = fc.array(fc.double({ noNaN: true }), { maxLength: 20 }).map((a) => Float64Array.from(a));
const anyEntry = fc.oneof(
  fc.tuple(u31, off, fc.integer({ min: 1, max: 5 }), fc.nat(300)).map(([n, o, c, b]) => append(n, o, c, b)),
  fc.record({
    kind: fc.constant("create"),
    segmentNumber: u31,
    partition,
    segment,
    base: maybe(off),
    nonce: text,
    producers: blob,
  }),
  fc.record({ kind: fc.constant("fence"), segmentNumber: u31, partition, segment, epoch: u31 }),
  fc.record({
    kind: fc.constant("rebuild"),
    segmentNumber: u31,
    partition,
    segment,
    base: off,
    end: off,
    epoch: maybe(u31),
    keyRevision: maybe(off),
    producers: blob,
  }),
  fc.record({ kind: fc.constant("seal"), segmentNumber: u31, end: fc.integer({ min: -1, max: 2 ** 52 }), epoch: u31 }),
  fc.record({ kind: fc.constant("delete"), segmentNumber: u31 }),
  fc.record({ kind: fc.constant("node-state"), nextSegmentNumber: off, damaged: fc.boolean() }),
  fc.record({ kind: fc.constant("partition-state"), partition, maxEpoch: fc.integer({ min: -1, max: 0x7fffffff }) }),
  fc.record({
    kind: fc.constant("segment-state"),
    segmentNumber: u31,
    partition,
    segment,
    status,
    base: maybe(off),
    last: fc.integer({ min: -1, max: 2 ** 52 }),
    lac: fc.integer({ min: -1, max: 2 ** 52 }),
    end: maybe(fc.integer({ min: -1, max: 2 ** 52 })),
    fencedBy: fc.integer({ min: -1, max: 0x7fffffff }),
    madeBy: u31,
    keyRevision: maybe(off),
    rebuildEpoch: maybe(u31),
    nonce: text,
    chainHash: fc.constantFrom("", "0123456789abcdef"),
    producers: blob,
    producersKnown: fc.boolean(),
    sizeBytes: off,
    firstAppendMs: off,
    lastAppendMs: off,
    maxTimestampMs: fc.integer({ min: -1, max: 2 ** 52 }),
  }),
  fc.record({
    kind: fc.constant("segment-index"),
    segmentNumber: u31,
    offsets: floats,
    positions: floats,
    timestampsBefore: floats,
    fileBytes: floats,
  }),
) as fc.Arbitrary<JournalEntry>;

describe("entries", () => {
  test("come back as they were written", () => {
    fc.assert(
      fc.property(anyEntry, (e) => {
        const bytes = encode(e);
        expect(decodeEntry(bytes, 0, bytes.length, sum32)).toEqual(e);
      }),
    );
  });
  test("with any byte changed are damaged, whatever the byte", () => {
    fc.assert(
      fc.property(anyEntry, fc.nat(), fc.integer({ min: 1, max: 255 }), (e, at, xor) => {
        const bytes = encode(e);
        bytes[at % bytes.length] = (bytes[at % bytes.length] as number) ^ xor;
        expect(decodeEntry(bytes, 0, bytes.length, sum32)).toBeUndefined();
      }),
    );
  });
  test("tagged fields of an append are kept, over 256 bytes refused", () => {
    const e = { ...append(1, 0), annotations: new Uint8Array([1, 2, 3]) } as JournalEntry;
    const bytes = encode(e);
    expect(decodeEntry(bytes, 0, bytes.length, sum32)).toEqual(e);
    expect(() => encode({ ...append(1, 0), annotations: new Uint8Array(257) } as JournalEntry)).toThrow(/tagged/);
  });
  test("random bytes are never an entry and never throw", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        expect(decodeEntry(bytes, 0, bytes.length, sum32)).toBeUndefined();
        expect(decodeGroupHeader(bytes, 0, sum32, SALT)).toBeUndefined();
        expect(decodeFileHeader(bytes, sum32)).toBeUndefined();
      }),
    );
  });
});

test("the file header comes back; another version is refused by name", () => {
  const h = { fileNumber: 7, fileBytes: 65536, clusterId: "c-1", incarnation: "inc-1" };
  const bytes = encodeFileHeader(h, sum32);
  expect(bytes.length).toBe(FILE_HEADER_BYTES);
  expect(decodeFileHeader(bytes, sum32)).toEqual(h);
  const view = new DataView(bytes.buffer);
  view.setUint16(4, 2, true);
  expect(decodeFileHeader(bytes, sum32)).toBeUndefined();
  view.setUint32(508, sum32(bytes.subarray(0, 508)), true);
  expect(() => decodeFileHeader(bytes, sum32)).toThrow(/version 2/);
});

/** An entry as a short text: comparing bytes one by one is slow. */
const keyOf = (e: JournalEntry): string =>
  e.kind === "append" ? `${e.segmentNumber}/${e.firstOffset}-${e.lastOffset}#${sum32(e.payload)}` : JSON.stringify(e);

/** A journal in memory, written as a node does: one flush in flight, files reused with their old bytes in them. */
class Journal {
  readonly files: { fileNumber: number; bytes: Uint8Array }[] = [];
  readonly fileBytes: number;
  lsn = 0;
  previous = 0;
  synced = 0;
  at = 0;
  /** By LSN: where the group lies and what it holds. */
  readonly groups: { lsn: number; file: number; at: number; length: number; entries: JournalEntry[] }[] = [];
  constructor(fileBytes = 32768, garbage = 0) {
    this.fileBytes = fileBytes;
    this.#next(garbage);
  }
  #next(garbage: number): void {
    const bytes = new Uint8Array(this.fileBytes).fill(garbage);
    const fileNumber = this.files.length + 1;
    // What an earlier life of the file left: sound groups of another number.
    for (let at = FILE_HEADER_BYTES; at < bytes.length; at += 8192)
      encodeGroupHeader(
        { lsn: 900 + at, previousLsn: 899, syncedUpTo: 899, fileNumber: 99, entryBytes: 0, entryCount: 0 },
        bytes,
        at,
        sum32,
        SALT,
      );
    bytes.set(encodeFileHeader({ fileNumber, fileBytes: this.fileBytes, clusterId: "c", incarnation: "i" }, sum32));
    this.files.push({ fileNumber, bytes });
    this.at = FILE_HEADER_BYTES;
  }
  /** Writes a group; `survives` decides per 512-byte sector what a power cut leaves of it (default all: it is synced). */
  write(entries: JournalEntry[], survives?: (sector: number) => boolean): void {
    const body = join(...entries.map(encode));
    const length = padded(GROUP_HEADER_BYTES + body.length);
    if (this.at + length > this.fileBytes) this.#next(0);
    const group = new Uint8Array(length);
    const file = this.files.at(-1) as { fileNumber: number; bytes: Uint8Array };
    const header = {
      lsn: ++this.lsn,
      previousLsn: this.previous,
      syncedUpTo: this.synced,
      fileNumber: file.fileNumber,
      entryBytes: body.length,
      entryCount: entries.length,
    };
    encodeGroupHeader(header, group, 0, sum32, SALT);
    group.set(body, GROUP_HEADER_BYTES);
    for (let s = 0; s * 512 < length; s++)
      if (survives === undefined || survives(s)) file.bytes.set(group.subarray(s * 512, (s + 1) * 512), this.at + s * 512);
    this.groups.push({ lsn: this.lsn, file: file.fileNumber, at: this.at, length, entries });
    this.at += length;
    this.previous = this.lsn;
    if (survives === undefined) this.synced = this.lsn;
  }
  /** Goes on after a restart: the next group takes the place of what was torn. */
  resume(end: ScanEnd): void {
    while ((this.files.at(-1)?.fileNumber ?? 0) > end.fileNumber) this.files.pop();
    this.at = end.at;
    this.lsn = end.highestLsn;
    this.previous = end.lastLsn;
    this.synced = end.lastLsn;
    while ((this.groups.at(-1)?.lsn ?? 0) > end.lastLsn) this.groups.pop();
  }
  scan(mutants: ScanMutants = {}): { seen: string[]; end: ScanEnd } {
    const seen: string[] = [];
    const files = this.files.map((f) => ({ fileNumber: f.fileNumber, bytes: f.bytes.length }));
    const start = { fileNumber: 1, at: FILE_HEADER_BYTES, previousLsn: 0 };
    const visitor = {
      entry: (e: JournalEntry) => seen.push(keyOf(e)),
      unknown: () => seen.push("unknown"),
    };
    const run = scanJournal(files, start, sum32, SALT, visitor, mutants);
    let step = run.next();
    while (step.done !== true) {
      const { fileNumber, at, length } = step.value;
      const file = this.files.find((f) => f.fileNumber === fileNumber);
      step = run.next(file?.bytes.slice(at, at + length) ?? new Uint8Array(0));
    }
    return { seen, end: step.value };
  }
  allEntries(): string[] {
    return this.groups.flatMap((g) => g.entries.map(keyOf));
  }
}
const groupsArb = fc.array(
  fc.array(
    fc.tuple(fc.nat(3), fc.nat(100), fc.oneof(fc.nat(100), fc.nat(2500))).map(([n, o, b]) => append(n, o, 1, b)),
    { maxLength: 3 },
  ),
  { minLength: 1, maxLength: 12 },
);

describe("scan", () => {
  test("gives all entries in order, across files, and stops at old data of a reused file", () => {
    fc.assert(
      fc.property(groupsArb, (groups) => {
        const j = new Journal();
        for (const g of groups) j.write(g);
        const { seen, end } = j.scan();
        expect(seen).toEqual(j.allEntries());
        expect(end).toMatchObject({ lastLsn: j.lsn, unknownGroups: 0, at: j.at, fileNumber: j.files.length });
      }),
      { numRuns: 40 },
    );
  });
  test("a power cut: any sectors of the unsynced group survive; what was synced is all there, the rest whole or not at all, nothing is unknown", () => {
    fc.assert(
      fc.property(
        groupsArb,
        groupsArb,
        fc.array(fc.boolean(), { minLength: 1, maxLength: 40 }),
        fc.nat(255),
        (before, after, kept, old) => {
          const j = new Journal(32768, old);
          for (const g of before) j.write(g);
          const synced = j.allEntries();
          j.write(after[0] ?? [], (s) => kept[s % kept.length] === true);
          const { seen, end } = j.scan();
          expect(seen.slice(0, synced.length)).toEqual(synced);
          expect([synced.length, j.allEntries().length]).toContain(seen.length);
          expect(seen).not.toContain("unknown");
          // And life goes on: the torn place is written again under a new number.
          j.resume(end);
          for (const g of after.slice(1)) j.write(g);
          const again = j.scan();
          expect(again.seen).toEqual(j.allEntries());
          expect(again.end.lastLsn).toBe(j.lsn === end.highestLsn ? end.lastLsn : j.lsn);
        },
      ),
      { numRuns: 60 },
    );
  });
  test("what is left of a torn group at the end of a file does not hide what was written in the next file", () => {
    const j = new Journal();
    for (let i = 0; i < 6; i++) j.write([]);
    j.write([append(0, 0, 1, 700)], (sector) => sector === 0);
    const { end } = j.scan();
    expect(end).toMatchObject({ torn: true, lastLsn: 6, highestLsn: 7 });
    j.resume(end);
    // Too large for the rest of the file.
    j.write([append(0, 0, 1, 2500), append(0, 1, 1, 2500)]);
    expect(j.files).toHaveLength(2);
    expect(j.scan()).toMatchObject({ seen: j.allEntries(), end: { lastLsn: 8, torn: false, unknownGroups: 0 } });
  });
  test("damage below syncedUpTo is unknown: at its place, with all other groups there", () => {
    fc.assert(
      fc.property(groupsArb, fc.nat(), fc.nat(), fc.integer({ min: 1, max: 255 }), (groups, which, at, xor) => {
        const j = new Journal();
        for (const g of groups) j.write(g);
        j.write([]); // the mark of an idle journal
        const hit = j.groups[which % groups.length];
        if (hit === undefined) return;
        const used = GROUP_HEADER_BYTES + hit.entries.reduce((n, e) => n + encode(e).length, 0);
        const file = j.files[hit.file - 1];
        const pos = hit.at + (at % (used - 12));
        // The twelve zeros at the end of a group header mean nothing.
        if (file === undefined || (pos - hit.at >= 52 && pos - hit.at < 64)) return;
        file.bytes[pos] = (file.bytes[pos] as number) ^ xor;
        const { seen, end } = j.scan();
        const expected = j.groups.flatMap((g) => (g === hit ? ["unknown"] : g.entries.map(keyOf)));
        expect(seen).toEqual(expected);
        expect(end).toMatchObject({ lastLsn: j.lsn, unknownGroups: 1 });
      }),
      { numRuns: 60 },
    );
  });
  test("damage to the last group with nothing behind it is a torn tail; a mark behind it makes it unknown", () => {
    const j = new Journal();
    j.write([append(1, 0)]);
    j.write([append(1, 1)]);
    const hit = j.groups[1];
    const bytes = j.files[0]?.bytes;
    if (hit === undefined || bytes === undefined) throw new Error("no group");
    bytes[hit.at + 100] = 77;
    expect(j.scan()).toMatchObject({ end: { torn: true, unknownGroups: 0, lastLsn: 1, highestLsn: 2 } });
    expect(j.scan({ tornIsUnknown: true }).seen[1]).toBe("unknown");
    j.write([]);
    expect(j.scan().seen[1]).toBe("unknown");
    expect(j.scan({ unknownIsTorn: true }).seen).toHaveLength(1);
  });
  test("bytes of a client that look like a group do not make a torn tail unknown", () => {
    const j = new Journal();
    j.write([append(1, 0)]);
    // Without the salt the best that a client can write.
    const fake = new Uint8Array(GROUP_HEADER_BYTES);
    encodeGroupHeader({ lsn: 50, previousLsn: 49, syncedUpTo: 49, fileNumber: 1, entryBytes: 0, entryCount: 0 }, fake, 0, sum32, 0);
    j.write([append(1, 1, 1, 9000)], (s) => s !== 1);
    const g = j.groups[1];
    if (g === undefined) throw new Error("no group");
    j.files[0]?.bytes.set(fake, g.at + 4096);
    expect(j.scan()).toMatchObject({ end: { unknownGroups: 0, torn: true } });
  });
});

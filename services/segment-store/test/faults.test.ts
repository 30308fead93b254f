import { describe, expect, jest, test } from "@jest/globals";
import * as fc from "fast-check";
import { errorNumber } from "@sluice/core/model";
import type { ReplicaMutants } from "@sluice/core/replica";
import { systemClock } from "@sluice/runtime";
import { ManualClock, RecordingLogger } from "@sluice/runtime/testing";
import { Compactor } from "../src/compactor.ts";
import { DiskPressure } from "../src/disk-pressure.ts";
import { hasFailedMarker } from "../src/disk/format.ts";
import { nodeDisk } from "../src/disk/disk.ts";
import { FaultDisk, MemoryDisk } from "./fault-disk.ts";
import { noMetrics, offsetsOf, temporaryFolder, TestEngine } from "./support.ts";

// A busy machine must not fail a test that waits for disks and sockets.
jest.setTimeout(30_000);

describe("a failed sync", () => {
  test("fails every segment, is never tried again, and is remembered by a restart", async () => {
    await using folder = await temporaryFolder();
    const disk = new FaultDisk();
    let e = await TestEngine.open(folder.path, { disk });
    const s = await e.create(0);
    const t = await e.create(1);
    e.fill(s, 0, 4);
    await e.durable(s, 4);
    disk.syncError = "EIO";
    e.fill(s, 5, 9);
    expect(await e.durable(s, 9)).toMatchObject({ code: errorNumber("IO_FAILED"), durable: 4 });
    const syncs = disk.syncs;
    disk.syncError = undefined;
    e.fill(t, 0, 0);
    expect(await e.durable(t, 0)).toMatchObject({ code: errorNumber("IO_FAILED") });
    expect(await e.fence(0, 2)).toMatchObject({ code: errorNumber("IO_FAILED"), trusted: false });
    await systemClock.sleep(50);
    expect(disk.syncs).toBe(syncs);
    // What was durable before can still be read.
    expect(offsetsOf((await e.read(0, 0, { hw: 9 })).payload).last).toBe(4);
    for (let i = 0; i < 200 && !(await hasFailedMarker(nodeDisk, folder.path)); i++) await systemClock.sleep(20);
    expect(await hasFailedMarker(nodeDisk, folder.path)).toBe(true);
    await e.abandon();
    const log = new RecordingLogger();
    e = await TestEngine.open(folder.path, { logger: log });
    expect(await e.fence(0, 3)).toMatchObject({ trusted: false });
    e.fill(s, 5, 9);
    expect((await e.durable(s, 9)).code).not.toBe(0);
    expect(log.lines.some((l) => l.level === "error")).toBe(true);
    await e.abandon();
  });
  test("a full disk holds appends back and loses nothing when there is room again", async () => {
    await using folder = await temporaryFolder();
    const disk = new FaultDisk();
    const e = await TestEngine.open(folder.path, { disk });
    const s = await e.create(0);
    const told = Promise.withResolvers<void>();
    e.engine.host.onNoSpace = () => {
      e.engine.host.setDiskFull(true);
      told.resolve();
    };
    disk.writeError = "ENOSPC";
    e.fill(s, 0, 4);
    await told.promise;
    expect(e.appended.has(s)).toBe(false);
    e.fill(s, 5, 5);
    expect(await e.durable(s, 5)).toMatchObject({ code: errorNumber("DISK_FULL") });
    e.appended.clear();
    disk.writeError = undefined;
    expect(await e.durable(s, 4)).toMatchObject({ code: 0, durable: 4 });
    e.engine.host.setDiskFull(false);
    e.fill(s, 5, 6);
    expect(await e.durable(s, 6)).toMatchObject({ code: 0 });
    // A stop does not wait for room; what waited was never acknowledged.
    disk.writeError = "ENOSPC";
    e.fill(s, 7, 7);
    await systemClock.sleep(20);
    await e.close();
    const again = await TestEngine.open(folder.path);
    expect(await again.fence(0, 2)).toMatchObject({ trusted: true, last: 6 });
    await again.close();
  });
});

describe("group commit", () => {
  test("what arrives during a sync is one group", async () => {
    await using folder = await temporaryFolder();
    const disk = new FaultDisk();
    const e = await TestEngine.open(folder.path, { disk });
    const s = await e.create(0);
    const gate = Promise.withResolvers<void>();
    disk.syncDelay = () => gate.promise;
    e.fill(s, 0, 0);
    await new Promise<void>((resolve) => void setImmediate(() => setImmediate(resolve)));
    const before = disk.syncs;
    for (let o = 1; o <= 200; o++) e.fill(s, o, o);
    disk.syncDelay = undefined;
    gate.resolve();
    await e.durable(s, 200);
    expect(disk.syncs - before).toBeLessThanOrEqual(2);
    await e.close();
  });
  test("an entry larger than the group limit and the file goes alone", async () => {
    await using folder = await temporaryFolder();
    const e = await TestEngine.open(folder.path);
    const s = await e.create(0);
    e.fill(s, 0, 0, { bytes: 5_000_000 });
    e.fill(s, 1, 2);
    expect(await e.durable(s, 2)).toMatchObject({ code: 0 });
    expect((await e.read(0, 0, { hw: 2, maxBytes: 100 })).payload.length).toBe(5_000_061);
    await e.abandon();
    const again = await TestEngine.open(folder.path);
    expect((await again.read(0, 0, { hw: 2, maxBytes: 100 })).payload.length).toBe(5_000_061);
    await again.close();
  });
});

describe("power cut", () => {
  const operation = fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({
        op: fc.constant("append" as const),
        p: fc.nat(3),
        count: fc.integer({ min: 1, max: 5 }),
        bytes: fc.nat(9000),
      }),
    },
    { weight: 1, arbitrary: fc.record({ op: fc.constant("seal" as const), p: fc.nat(3) }) },
    { weight: 1, arbitrary: fc.record({ op: fc.constant("fence" as const), p: fc.nat(3) }) },
    { weight: 1, arbitrary: fc.record({ op: fc.constant("drop" as const), p: fc.nat(3) }) },
    { weight: 2, arbitrary: fc.constant({ op: "settle" as const }) },
    { weight: 1, arbitrary: fc.constant({ op: "checkpoint" as const }) },
    {
      weight: 1,
      arbitrary: fc.record({ op: fc.constant("cut" as const), sectors: fc.array(fc.boolean(), { minLength: 1, maxLength: 30 }) }),
    },
  );
  const nothingLost = (mutants: ReplicaMutants) =>
    fc.asyncProperty(fc.array(operation, { minLength: 5, maxLength: 40 }), async (operations) => {
      const disk = new MemoryDisk();
      const limits = { journalFileBytes: 128 * 1024, checkpointBytes: 200_000 };
      let e = await TestEngine.open("/node", { disk: disk.mounted(), limits, mutants });
      const acked = new Map<number, number>();
      const ended = new Set<number>();
      const next = [0, 0, 0, 0];
      const numbers: number[] = [];
      for (let p = 0; p < 4; p++) numbers.push(await e.create(p));
      const note = (): void => {
        for (const [i, number] of numbers.entries()) {
          const a = e.appended.get(number);
          if (a?.code === 0) acked.set(i, Math.max(acked.get(i) ?? -1, a.durable));
        }
      };
      const cut = async (sectors: readonly boolean[]): Promise<void> => {
        note();
        disk.powerCut((sector) => sectors[sector % sectors.length] === true);
        // The old process is gone; its late answers count for nothing.
        e = await TestEngine.open("/node", { disk: disk.mounted(), limits, mutants });
        expect(e.engine.host.state.damaged).toBe(false);
        for (let p = 0; p < 4; p++) {
          const s = e.engine.host.state.byNumber.get(numbers[p] as number);
          if (s?.status === "DELETED") continue;
          next[p] = (s?.last ?? -1) + 1;
          const durable = acked.get(p) ?? -1;
          if (!ended.has(p)) expect(s?.last ?? -1).toBeGreaterThanOrEqual(durable);
          if (durable < 0 || ended.has(p)) continue;
          let from = 0;
          while (from <= durable) {
            const { payload, code } = await e.read(p, from, { hw: durable });
            expect(code).toBe(0);
            from = offsetsOf(payload).last + 1;
          }
        }
      };
      for (const o of operations) {
        if (o.op === "settle") await e.engine.journal.settled();
        else if (o.op === "checkpoint") await e.engine.checkpoint();
        else if (o.op === "cut") await cut(o.sectors);
        else if (o.op === "append") {
          const first = next[o.p] as number;
          e.fill(numbers[o.p] as number, first, first + o.count - 1, { bytes: o.bytes });
          if (e.engine.host.state.byNumber.get(numbers[o.p] as number)?.status === "OPEN") next[o.p] = first + o.count;
        } else {
          ended.add(o.p);
          if (o.op === "fence") void e.fence(o.p, 2);
          else if (o.op === "seal") void e.seal(o.p, (next[o.p] as number) - 1, 2);
          else void e.drop(o.p);
        }
        note();
      }
      await e.engine.journal.settled();
      await cut([false]);
      await e.abandon();
    });
  test("whatever sectors of the unsynced part survive: nothing acknowledged is lost, all of it can be read, and the node trusts itself", async () => {
    await fc.assert(nothingLost({}), { numRuns: 60 });
  });
  test("the same check finds an answer before the sync", async () => {
    await expect(fc.assert(nothingLost({ M9: true }), { numRuns: 150 })).rejects.toThrow(/Property failed/);
  });
});

describe("compaction", () => {
  test("the little that lives in a file is copied to the head; the copies are read, also after a crash, and the file is free", async () => {
    await using folder = await temporaryFolder();
    let e = await TestEngine.open(folder.path);
    const clock = new ManualClock();
    let pressed = false;
    const waitMs = 60_000;
    const compactor = new Compactor({
      engine: e.engine,
      logger: new RecordingLogger(),
      metrics: noMetrics,
      clock,
      waitMs,
      pressed: () => pressed,
    });
    const small = await e.create(0);
    const big: number[] = [];
    for (let k = 0; k < 6; k++) big.push(await e.create(1, 0, 1, k));
    for (let k = 0; k < 6; k++) {
      e.fill(small, k * 10, k * 10 + 9, { bytes: 4_000 });
      e.fill(big[k] as number, 0, 9, { bytes: 80_000 });
      await e.durable(big[k] as number, 9);
    }
    await e.durable(small, 59);
    for (let k = 0; k < 6; k++) {
      await e.seal(1, 9, 1, 1, k);
      await e.drop(1, 1, k);
    }
    const before = e.engine.files.inUse().length;
    // What is left may go by itself: it is copied after a while, or when space is short.
    await compactor.run();
    expect(e.engine.files.inUse().length).toBe(before);
    pressed = true;
    await compactor.run();
    expect(e.engine.files.inUse().length).toBeLessThan(before);
    compactor.stop();
    const check = async (last: number): Promise<void> => {
      for (const from of [0, 13, 37, 59])
        expect(offsetsOf((await e.read(0, from, { hw: last })).payload)).toMatchObject({ first: from, last });
    };
    await check(59);
    e.fill(small, 60, 69, { bytes: 4_000 });
    await e.durable(small, 69);
    await check(69);
    await e.abandon();
    e = await TestEngine.open(folder.path);
    await check(69);
    await e.seal(0, 69);
    await e.drop(0);
    await e.engine.checkpoint();
    expect(e.engine.host.locations.totalLiveBytes).toBe(0);
    await e.close();
  });
});

describe("disk pressure", () => {
  test("60 % asks for a roll of the largest open segment, 85 % warns, 95 % refuses appends, and below it they go on", async () => {
    await using folder = await temporaryFolder();
    const e = await TestEngine.open(folder.path, { limits: { journalFileBytes: 8 * 1024 * 1024 } });
    const s = await e.create(0);
    const small = await e.create(1);
    e.fill(s, 0, 29, { bytes: 60_000 });
    e.fill(small, 0, 0);
    await e.durable(s, 29);
    let freeBytes = 100;
    const log = new RecordingLogger();
    const p = new DiskPressure({
      folder: folder.path,
      capacityBytes: 0,
      files: e.engine.files,
      host: e.engine.host,
      clock: systemClock,
      logger: log,
      intervalMs: 1000,
      space: () => Promise.resolve({ totalBytes: 100, freeBytes }),
    });
    await p.check();
    expect(p.level).toBe("low");
    freeBytes = 39;
    await p.check();
    expect(p.level).toBe("roll");
    e.appended.clear();
    e.fill(s, 30, 30);
    expect(await e.durable(s, 30)).toMatchObject({ code: errorNumber("DISK_FULL") });
    e.fill(small, 1, 1);
    expect(await e.durable(small, 1)).toMatchObject({ code: 0 });
    freeBytes = 14;
    await p.check();
    expect(p.level).toBe("warn");
    freeBytes = 4;
    await p.check();
    expect(p.level).toBe("refuse");
    e.appended.clear();
    e.fill(small, 2, 2);
    expect(await e.durable(small, 2)).toMatchObject({ code: errorNumber("DISK_FULL") });
    expect(offsetsOf((await e.read(1, 0, { hw: 1 })).payload).last).toBe(1);
    freeBytes = 50;
    await p.check();
    e.appended.clear();
    e.fill(small, 2, 2);
    expect(await e.durable(small, 2)).toMatchObject({ code: 0 });
    await e.close();
  });
});

import { describe, expect, jest, test } from "@jest/globals";
import { codeOf, errorNumber } from "@sluice/core/model";
import { systemClock } from "@sluice/runtime";
import { RecordingLogger } from "@sluice/runtime/testing";
import { Compactor } from "../src/compactor.ts";
import { DiskPressure } from "../src/disk-pressure.ts";
import { nodeDisk } from "../src/disk/disk.ts";
import { FullMark } from "../src/full-mark.ts";
import { FaultDisk } from "./fault-disk.ts";
import { noMetrics, temporaryFolder, TestEngine } from "./support.ts";

// A busy machine must not fail a test that waits for disks and sockets.
jest.setTimeout(30_000);
/** What takes no time must not take this, ms: a drain's deadline is 10 s. */
const AT_ONCE_MS = 2_000;

/** Full once the journal is open. */
async function fullEngine(folder: string) {
  const disk = new FaultDisk();
  const e = await TestEngine.open(folder, { disk });
  const s = await e.create(0);
  e.fill(s, 0, 4);
  await e.durable(s, 4);
  const told = Promise.withResolvers<void>();
  e.engine.host.onNoSpace = () => told.resolve();
  disk.writeError = "ENOSPC";
  e.fill(s, 5, 5);
  await told.promise;
  return { disk, e, s };
}
const failureOf = (work: Promise<unknown>): Promise<unknown> => work.then(() => "done", codeOf);

describe("a journal that waits for room", () => {
  test("is waited for by nobody: drains, checkpoints, control calls and stops end at once", async () => {
    await using folder = await temporaryFolder();
    const { disk, e } = await fullEngine(folder.path);
    const { engine } = e;
    const startedMs = performance.now();
    const fence = failureOf(e.fence(0, 2));
    await engine.journal.settled();
    expect(await failureOf(engine.checkpoint())).toBe("DISK_FULL");
    expect(engine.journal.waitsForRoom).toBe(true);
    engine.host.stopWaiting();
    expect(await fence).toBe("SHUTTING_DOWN");
    expect(await failureOf(e.fence(0, 3))).toBe("SHUTTING_DOWN");
    await e.close();
    expect(performance.now() - startedMs).toBeLessThan(AT_ONCE_MS);
    disk.writeError = undefined;
    const again = await TestEngine.open(folder.path);
    expect(await again.fence(0, 4)).toMatchObject({ trusted: true, last: 4 });
    await again.close();
  });

  test("a checkpoint that waits for it is given up when the disk fills up under it", async () => {
    await using folder = await temporaryFolder();
    const disk = new FaultDisk();
    const e = await TestEngine.open(folder.path, { disk });
    const s = await e.create(0);
    e.fill(s, 0, 0);
    disk.writeError = "ENOSPC";
    expect(await failureOf(e.engine.checkpoint())).toBe("DISK_FULL");
    disk.writeError = undefined;
    expect(await e.durable(s, 0)).toMatchObject({ code: 0 });
    expect(await failureOf(e.engine.checkpoint())).toBe("done");
    await e.close();
  });
});

describe("no room for a checkpoint", () => {
  test("has its code, one line for as long as it lasts, and no stack", async () => {
    await using folder = await temporaryFolder();
    const disk = new FaultDisk();
    const log = new RecordingLogger();
    const e = await TestEngine.open(folder.path, { disk });
    disk.replaceWhole = () => Promise.reject(Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" }));
    const compactor = new Compactor({
      engine: e.engine,
      logger: log,
      metrics: noMetrics,
      clock: systemClock,
      waitMs: 1000,
      pressed: () => true,
    });
    const lines = () => log.lines.map(({ level, event, fields }) => ({ level, event, fields }));
    for (let i = 0; i < 3; i++) await compactor.runSoon();
    expect(lines()).toEqual([
      { level: "warn", event: "journal not compacted", fields: { code: "DISK_FULL", cause: "no room on the disk for a checkpoint" } },
    ]);
    disk.replaceWhole = (path, parts) => nodeDisk.replaceWhole(path, parts);
    await compactor.runSoon();
    expect(log.lines).toHaveLength(1);
    compactor.stop();
    await e.close();
  });
});

describe("the level of the disk", () => {
  test("full until there is clearly room, and for as long as a write waits; the cluster is told until it has heard", async () => {
    await using folder = await temporaryFolder();
    const { disk, e, s } = await fullEngine(folder.path);
    let freeBytes = 500;
    const told: boolean[] = [];
    let member: { diskFull?: boolean } | undefined;
    let away = false;
    const mark = new FullMark(() => ({
      record: member as never,
      update(change) {
        member = { ...member, ...change };
        if (away) return Promise.reject(new Error("away"));
        told.push(change.diskFull === true);
        return Promise.resolve();
      },
    }));
    const p = new DiskPressure({
      folder: folder.path,
      capacityBytes: 0,
      files: e.engine.files,
      host: e.engine.host,
      clock: systemClock,
      logger: new RecordingLogger(),
      intervalMs: 1000,
      space: () => Promise.resolve({ totalBytes: 1000, freeBytes }),
      waitsForRoom: () => e.engine.journal.waitsForRoom,
      tellFull: (full) => mark.set(full),
    });
    const check = async (): Promise<string> => {
      await p.check();
      return p.level;
    };
    // Half of the disk is free by its own count, but it takes nothing: a quota, or no inodes.
    expect(await check()).toBe("refuse");
    expect(String(p)).toContain("disk full");
    member = {};
    away = true;
    await check();
    away = false;
    await check();
    await check();
    expect(told).toEqual([true]);
    disk.writeError = undefined;
    expect(await e.durable(s, 5)).toMatchObject({ code: 0 });
    freeBytes = 55;
    expect(await check()).toBe("refuse");
    expect(told).toEqual([true]);
    freeBytes = 65;
    expect(await check()).toBe("warn");
    freeBytes = 55;
    expect(await check()).toBe("warn");
    freeBytes = 45;
    expect(await check()).toBe("refuse");
    expect(told).toEqual([true, false, true]);
    // Registered anew, by a record from before.
    member = { diskFull: false };
    await check();
    expect(told).toEqual([true, false, true, true]);
    e.appended.clear();
    e.fill(s, 6, 6);
    expect(await e.durable(s, 6)).toMatchObject({ code: errorNumber("DISK_FULL") });
    await e.close();
  });
});

import { describe, expect, jest, test } from "@jest/globals";
import { copyFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { errorNumber } from "@sluice/core/model";
import { batch, offsetsOf, temporaryFolder, TestEngine } from "./support.ts";

// A busy machine must not fail a test that waits for disks and sockets.
jest.setTimeout(30_000);

describe("engine", () => {
  test("what was acknowledged is read back, committed offsets only, and is there after a crash and after a clean stop", async () => {
    await using folder = await temporaryFolder();
    let e = await TestEngine.open(folder.path);
    const s = await e.create(0);
    e.fill(s, 0, 9);
    expect(await e.durable(s, 9)).toMatchObject({ code: 0, durable: 9 });
    expect((await e.read(0, 0)).payload.length).toBe(0);
    expect(offsetsOf((await e.read(0, 3, { hw: 7 })).payload)).toEqual({ first: 3, last: 7, batches: 5 });
    await e.abandon();
    e = await TestEngine.open(folder.path);
    expect(offsetsOf((await e.read(0, 0, { hw: 9 })).payload)).toEqual({ first: 0, last: 9, batches: 10 });
    e.fill(s, 10, 19);
    await e.durable(s, 19);
    expect(await e.seal(0, 17)).toMatchObject({ code: 0, status: "SEALED" });
    await e.close();
    e = await TestEngine.open(folder.path);
    expect(await e.read(0, 5)).toMatchObject({ sealed: true, limit: 17 });
    expect(offsetsOf((await e.read(0, 5)).payload)).toEqual({ first: 5, last: 17, batches: 13 });
    expect(await e.fence(0, 2)).toMatchObject({ status: "SEALED", trusted: true, last: 17 });
    await e.close();
  });

  test("many segments share the journal; each is read alone, across files, in runs of any size", async () => {
    await using folder = await temporaryFolder();
    let e = await TestEngine.open(folder.path);
    const numbers: number[] = [];
    for (let p = 0; p < 5; p++) numbers.push(await e.create(p));
    for (let round = 0; round < 20; round++)
      for (const [p, s] of numbers.entries()) e.fill(s, round * 4, round * 4 + 3, { bytes: 500 + p * 3000 });
    for (const s of numbers) await e.durable(s, 79);
    expect(e.engine.files.inUse().length).toBeGreaterThan(1);
    const check = async (): Promise<void> => {
      for (let p = 0; p < 5; p++) {
        for (const maxBytes of [1, 20_000, 300_000]) {
          let next = 0;
          while (next <= 79) {
            const { payload, code } = await e.read(p, next, { hw: 79, maxBytes });
            expect(code).toBe(0);
            const got = offsetsOf(payload);
            expect(got.first).toBe(next);
            if (got.batches > 1) expect(payload.length).toBeLessThanOrEqual(maxBytes);
            next = got.last + 1;
          }
        }
      }
    };
    await check();
    await e.engine.checkpoint();
    for (const s of numbers) e.fill(s, 80, 81);
    for (const s of numbers) await e.durable(s, 81);
    await e.abandon();
    e = await TestEngine.open(folder.path);
    await check();
    expect(offsetsOf((await e.read(2, 78, { hw: 81 })).payload).last).toBe(81);
    await e.close();
  });

  test("a batch that holds the offset is found in the middle, and a large batch comes alone", async () => {
    await using folder = await temporaryFolder();
    const e = await TestEngine.open(folder.path);
    const s = await e.create(0);
    e.send(s, [batch({ first: 0, count: 10 }), batch({ first: 10, count: 10, bytes: 700_000 }), batch({ first: 20, count: 5 })], {
      first: 0,
      last: 24,
    });
    await e.durable(s, 24);
    expect(offsetsOf((await e.read(0, 13, { hw: 24, maxBytes: 100 })).payload)).toEqual({ first: 10, last: 19, batches: 1 });
    expect(offsetsOf((await e.read(0, 13, { hw: 22 })).payload)).toEqual({ first: 10, last: 19, batches: 1 });
    await e.close();
  });

  test("a dropped segment frees its files for reuse; the others stay readable, also after a restart from the reused ones", async () => {
    await using folder = await temporaryFolder();
    let e = await TestEngine.open(folder.path);
    const a = await e.create(0);
    e.fill(a, 0, 40, { bytes: 60_000 });
    await e.durable(a, 40);
    const b = await e.create(1);
    e.fill(b, 0, 9);
    await e.durable(b, 9);
    const before = e.engine.files.inUse().length;
    await e.seal(0, 40);
    expect(await e.drop(0)).toMatchObject({ code: 0 });
    await e.engine.checkpoint();
    expect(e.engine.files.inUse().length).toBeLessThan(before);
    expect(e.engine.files.freeFiles).toBeGreaterThan(0);
    expect(await e.read(0, 0)).toMatchObject({ code: errorNumber("UNKNOWN_SEGMENT") });
    const c = await e.create(2);
    e.fill(c, 0, 40, { bytes: 60_000 });
    await e.durable(c, 40);
    const onDisk = (await readdir(join(folder.path, "journal"))).length;
    expect(onDisk).toBeLessThanOrEqual(before + 1);
    await e.abandon();
    e = await TestEngine.open(folder.path);
    expect(offsetsOf((await e.read(1, 0, { hw: 9 })).payload).last).toBe(9);
    expect(offsetsOf((await e.read(2, 30, { hw: 40 })).payload).last).toBe(40);
    expect(await e.fence(0, 2)).toMatchObject({ status: "DELETED", trusted: false });
    await e.close();
  });

  test("a damaged byte is never served, and the copy is told from a missing one", async () => {
    await using folder = await temporaryFolder();
    let e = await TestEngine.open(folder.path);
    const s = await e.create(0);
    e.fill(s, 0, 9, { bytes: 5000 });
    await e.durable(s, 9);
    await e.close();
    const [name] = await readdir(join(folder.path, "journal"));
    const path = join(folder.path, "journal", name as string);
    const { open } = await import("node:fs/promises");
    const handle = await open(path, "r+");
    await handle.write(new Uint8Array([1, 2, 3]), 0, 3, 4096 + 4096 + 4096 + 20_000);
    await handle.close();
    e = await TestEngine.open(folder.path);
    const answer = await e.read(0, 0, { hw: 9 });
    expect(answer.code).toBe(errorNumber("READ_UNAVAILABLE"));
    await e.close();
    void copyFile;
  });

  test("look-up by time gives the first batch that is late enough", async () => {
    await using folder = await temporaryFolder();
    const e = await TestEngine.open(folder.path);
    const s = await e.create(0);
    for (let o = 0; o < 60; o++) e.send(s, [batch({ first: o, bytes: 20_000, timestamp: 1000 + o * 10 })], { first: o, last: o });
    await e.durable(s, 59);
    await e.seal(0, 59);
    const { address } = await import("./support.ts");
    const look = async (t: number) => (await e.engine.reader.lookupTimestamp(address(0), t)).offset;
    expect(await look(0)).toBe(0);
    expect(await look(1000)).toBe(0);
    expect(await look(1001)).toBe(1);
    expect(await look(1345)).toBe(35);
    expect(await look(1590)).toBe(59);
    expect(await look(1591)).toBe(-1);
    await e.close();
  });
});

import { describe, expect, test } from "@jest/globals";
import { limits, type ObjectRef } from "@sluice/core/model";
import { BlockCache } from "../src/block-cache.ts";

const MiB = limits.blockBytes;
const object = (key: string, blocks: number): ObjectRef => ({ key, at: 0, length: blocks * MiB, format: 1 });

function setup(bytesMax: number) {
  const reads: string[] = [];
  let fail = false;
  const cache = new BlockCache({
    bytesMax,
    source: {
      block(o, index) {
        reads.push(`${o.key}/${index}`);
        return fail ? Promise.reject(new Error("away")) : Promise.resolve(new Uint8Array(Math.min(MiB, o.length - index * MiB)));
      },
    },
  });
  return { cache, reads, failing: (on: boolean) => (fail = on) };
}

describe("block cache", () => {
  test("concurrent misses share one read; one block is read ahead, once", async () => {
    const { cache, reads } = setup(8 * MiB);
    const o = object("o", 4);
    await Promise.all([cache.block(o, 0), cache.block(o, 0), cache.block(o, 0)]);
    expect(reads).toEqual(["o/0", "o/1"]);
    await cache.block(o, 1);
    expect(reads).toEqual(["o/0", "o/1", "o/2"]);
    await cache.block(o, 3);
    expect(reads).toEqual(["o/0", "o/1", "o/2", "o/3"]);
    expect(cache.bytes).toBe(4 * MiB);
  });

  test("a scan of the history does not push out what is read again", async () => {
    const { cache, reads } = setup(8 * MiB);
    const hot = object("hot", 1);
    await cache.block(hot, 0);
    for (let i = 0; i < 9; i += 1) await cache.block(object(`early-${i}`, 1), 0);
    // The second miss of a name that is remembered: it belongs to those that are read again.
    await cache.block(hot, 0);
    expect(reads.filter((r) => r === "hot/0").length).toBe(2);
    for (let i = 0; i < 100; i += 1) await cache.block(object(`scan-${i}`, 1), 0);
    await cache.block(hot, 0);
    expect(reads.filter((r) => r === "hot/0").length).toBe(2);
    expect(cache.bytes).toBeLessThanOrEqual(8 * MiB);
  });

  test("a failed read is not kept", async () => {
    const { cache, reads, failing } = setup(4 * MiB);
    const o = object("o", 1);
    failing(true);
    await expect(cache.block(o, 0)).rejects.toThrow("away");
    expect(cache.bytes).toBe(0);
    failing(false);
    await cache.block(o, 0);
    expect(reads).toEqual(["o/0", "o/0"]);
  });
});

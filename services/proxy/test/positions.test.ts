import { expect, test } from "@jest/globals";
import { nativeCodecs } from "@sluice/codec";
import { findBatch, stampRun } from "@sluice/core/log";
import { topicId, type PartitionId } from "@sluice/core/model";
import { Positions, type PositionsOptions } from "../src/positions.ts";
import { damaged, overLimit } from "./support/odd-batches.ts";
import { batchOf } from "./support/proxy.ts";

const p: PartitionId = { topicId: topicId("00000000-0000-4000-8000-000000000000"), partition: 0 };

/** The log of one partition, read from a piece of memory. */
function positionsIn(...batches: readonly Uint8Array[]): Positions {
  const run = Buffer.concat(batches);
  const end = stampRun(run, 0, 1);
  const options: PositionsOptions = {
    view: { partition: () => ({ startOffset: 0 }) } as unknown as PositionsOptions["view"],
    segments: {
      scanStart: async () => 0,
      read: async (_, offset) => ({ batches: run.subarray(findBatch(run, offset)), nextOffset: end, from: "object" }),
    },
    offsets: { confirm: async () => ({ highWatermark: end }) as Awaited<ReturnType<PositionsOptions["offsets"]["confirm"]>> },
    codecs: nativeCodecs,
  };
  return new Positions(options);
}
async function timesOf(positions: Positions, ...timesMs: readonly number[]): Promise<(readonly number[])[]> {
  const found = [];
  for (const timeMs of timesMs) found.push(await positions.atTime(p, timeMs, 1_000));
  return found.map(({ offset, timestampMs }) => [offset, timestampMs]);
}

test("a time that falls into a batch that cannot be decoded is that batch's offset, and later ones are found as ever", async () => {
  const positions = positionsIn(batchOf(["0", "1"], 1_000), damaged(["2", "3", "4"], 0, 2_000), batchOf(["5"], 3_000));
  expect(await timesOf(positions, 1_000, 1_500, 2_500, 3_500)).toEqual([
    [0, 1_000],
    [2, 2_000],
    [5, 3_000],
    [-1, -1],
  ]);
});
test("one that decompresses to more than its size allows is not told as a message that is too large", async () => {
  const positions = positionsIn(batchOf(["0"], 1_000), overLimit(2_000), batchOf(["2"], 3_000));
  expect(await timesOf(positions, 1_500, 2_500)).toEqual([
    [1, 2_000],
    [2, 3_000],
  ]);
});
test("of a batch that is damaged behind its first records those are looked at", async () => {
  const times = [1_000, 1_000, 1_000];
  const batch = damaged(times.map(String), 1, 1_000);
  expect(await timesOf(positionsIn(batch), 1_000)).toEqual([[0, 1_000]]);
});

import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { errorNumber } from "@sluice/core/model";
import { DataFormat } from "@sluice/proto/v1/consume";
import { damaged } from "./support/odd-batches.ts";
import { FakeCluster, offsetsIn } from "./support/fake-cluster.ts";
import { batchOf, startProxy, type RunningProxy } from "./support/proxy.ts";

const timeoutMs = 5_000;

describe("a batch that nobody can decode, and formats", () => {
  const cluster = new FakeCluster();
  let p: RunningProxy;
  beforeAll(async () => {
    await cluster.start();
    const topic = await cluster.topic("t", 1);
    p = await startProxy(cluster);
    cluster.append(topic, 0, batchOf(["0", "1"]));
    cluster.append(topic, 0, damaged(["2", "3", "4"]));
    cluster.append(topic, 0, batchOf(["5"]));
    cluster.append(topic, 0, damaged(["6", "7"], 1));
    cluster.append(topic, 0, batchOf(["8"]));
    await cluster.topic("__sluice_groups", 1);
  });
  afterAll(async () => {
    await p?.[Symbol.asyncDispose]();
    await cluster[Symbol.asyncDispose]();
  });
  const fetch = (offset: number, format: DataFormat = DataFormat.RECORDS) =>
    p.consume.fetch({ topic: "t", partition: 0, offset: BigInt(offset), format, waitMs: 50 }, { timeoutMs });
  const offsets = (records: { readonly offset: bigint }[] | undefined): number[] => (records ?? []).map((r) => Number(r.offset));

  test("fetch: what is before it, then an error that names the way past it", async () => {
    const first = await fetch(0);
    expect([offsets(first.records?.records), Number(first.nextOffset)]).toEqual([[0, 1], 2]);
    const lost = { code: "UNREADABLE_BATCH", details: { topic: "t", partition: "0", offset: "2", nextOffset: "5" } };
    await expect(fetch(2)).rejects.toMatchObject(lost);
    // From within the batch as well.
    await expect(fetch(3)).rejects.toMatchObject(lost);
    const half = await fetch(5);
    expect([offsets(half.records?.records), Number(half.nextOffset)]).toEqual([[5, 6], 7]);
    await expect(fetch(7)).rejects.toMatchObject({ code: "UNREADABLE_BATCH", details: { nextOffset: "8" } });
    expect(offsets((await fetch(8)).records?.records)).toEqual([8]);
    expect(offsetsIn((await fetch(0, DataFormat.BATCHES)).batches)).toHaveLength(9);
  });

  test("consume: the partition is paused with the same error and goes on after a seek", async () => {
    const stream = p.consume.consume({ timeoutMs });
    const position = { at: { case: "earliest" as const, value: {} } };
    stream.write({ request: { case: "start", value: { topic: "t", position, format: DataFormat.RECORDS, creditBytes: 1_000_000 } } });
    const got: number[] = [];
    const passed: number[] = [];
    for await (const answer of stream) {
      got.push(...offsets(answer.records?.records));
      if (answer.error !== 0) {
        expect([answer.error, answer.partition]).toEqual([errorNumber("UNREADABLE_BATCH"), 0]);
        expect(answer.errorMessage).toContain(`t/0: the batch at offsets`);
        passed.push(Number(answer.nextOffset));
        const seek = { at: { case: "offset" as const, value: answer.nextOffset } };
        stream.write({ request: { case: "seek", value: { partition: 0, position: seek, seekNumber: passed.length } } });
      }
      if (got.at(-1) === 8) break;
    }
    stream.cancel();
    expect(passed).toEqual([5, 8]);
    expect(got).toEqual([0, 1, 5, 6, 8]);
  });

  test("an unknown format is refused", async () => {
    await expect(fetch(0, 7 as DataFormat)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    const stream = p.consume.consume({ timeoutMs });
    stream.write({ request: { case: "start", value: { topic: "t", format: 7 as DataFormat, creditBytes: 1_000 } } });
    await expect(stream[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  test("topics of the cluster are not read by clients", async () => {
    const topic = "__sluice_groups";
    await expect(p.consume.fetch({ topic, partition: 0, offset: 0n }, { timeoutMs })).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
    const stream = p.consume.consume({ timeoutMs });
    stream.write({ request: { case: "start", value: { topic, creditBytes: 1_000 } } });
    await expect(stream[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
  });
});

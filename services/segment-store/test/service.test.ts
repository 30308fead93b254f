import { describe, expect, jest, test } from "@jest/globals";
import { rm } from "node:fs/promises";
import { memberCodec, nodeCodec } from "@sluice/catalog";
import { errorNumber, memberId } from "@sluice/core/model";
import { StoreCluster } from "./cluster.ts";
import { offsetsOf, temporaryFolder } from "./support.ts";

// A busy machine must not fail a test that waits for disks and sockets.
jest.setTimeout(30_000);

describe("storage node", () => {
  test("registers, creates, appends, reads and fences over link and gRPC", async () => {
    await using folder = await temporaryFolder();
    await using cluster = await StoreCluster.create();
    const node = await cluster.node("store-1", folder.path);
    const member = await cluster.store.get(cluster.keys.member("segment-store", memberId("store-1")));
    expect(memberCodec.decode(member.entry?.value ?? new Uint8Array())).toMatchObject({
      incarnation: node.incarnation,
      endpoints: { link: node.service.endpoints()["link"], rpc: node.service.endpoints()["rpc"] },
    });
    const s = await node.create(0);
    const broker = await node.connect();
    broker.append(s, 0, 9, { lac: 4 });
    expect(await broker.until(s, 9)).toMatchObject({ code: 0, durable: 9 });
    const proxy = await node.connect("bulk");
    const read = await proxy.read(0, 2);
    expect(read).toMatchObject({ code: 0, sealed: false, limit: 4 });
    expect(offsetsOf(read.payload)).toEqual({ first: 2, last: 4, batches: 3 });
    expect(offsetsOf((await proxy.read(0, 0, { hw: 7 })).payload).last).toBe(7);
    const vote = await node.fence(0, 2);
    expect(vote).toMatchObject({ code: 0, trusted: true, status: "FENCED", last: 9n, base: 0n });
    broker.append(s, 10, 10);
    expect(await broker.until(s, 10)).toMatchObject({ code: errorNumber("STALE_EPOCH") });
    const tail = await node.client.recoveryRead(
      { address: { topicId: "00000000-0000-4000-8000-000000000001", partition: 0, epoch: 1, k: 0 }, epoch: 2, from: 5n, maxBytes: 1 << 20 },
      { timeoutMs: 5000 },
    );
    expect(offsetsOf(tail.payload)).toEqual({ first: 5, last: 9, batches: 5 });
    expect(await node.seal(0, 8, 2)).toMatchObject({ code: 0, status: "SEALED" });
    expect(await proxy.read(0, 0)).toMatchObject({ sealed: true, limit: 8 });
    const described = await node.client.describeNode({}, { timeoutMs: 5000 });
    expect(described).toMatchObject({ node: "store-1", incarnation: node.incarnation, segments: [{ status: "SEALED", last: 8n }] });
    expect(described.freeBytes).toBeGreaterThan(0n);
  });

  test("answers of one group come in one frame, whatever the number of segments", async () => {
    await using folder = await temporaryFolder();
    await using cluster = await StoreCluster.create();
    const node = await cluster.node("store-1", folder.path);
    const numbers: number[] = [];
    for (let p = 0; p < 8; p++) numbers.push(await node.create(p));
    const broker = await node.connect();
    for (let round = 0; round < 5; round++) for (const s of numbers) broker.append(s, round * 10, round * 10 + 9);
    for (const s of numbers) await broker.until(s, 49);
    expect(broker.frames).toBeLessThan(20);
  });

  test("a wiped node comes back as another incarnation and is refused as its old self", async () => {
    await using folder = await temporaryFolder();
    await using cluster = await StoreCluster.create();
    const before = await cluster.node("store-1", folder.path);
    const s = await before.create(0);
    const old = before.incarnation;
    await before.stop();
    await rm(folder.path, { recursive: true });
    const after = await cluster.node("store-1", folder.path);
    expect(after.incarnation).not.toBe(old);
    expect(await after.fence(0, 2, 1, old)).toMatchObject({ code: errorNumber("WRONG_INCARNATION"), trusted: false });
    const broker = await after.connect();
    broker.append(s, 0, 0);
    expect(await broker.until(s, 0)).toMatchObject({ code: errorNumber("UNKNOWN_SEGMENT") });
    const { entry } = await cluster.store.get(cluster.keys.node(memberId("store-1")));
    expect(nodeCodec.decode(entry?.value ?? new Uint8Array())).toMatchObject({ incarnation: after.incarnation, phase: "ACTIVE" });
  });

  test("refuses a folder of another cluster or node, one in use, and a journal whose format file is gone", async () => {
    await using folder = await temporaryFolder();
    await using cluster = await StoreCluster.create();
    const node = await cluster.node("store-1", folder.path);
    await expect(cluster.node("store-1", folder.path)).rejects.toMatchObject({ code: "INVALID_CONFIG" });
    await node.stop();
    await expect(cluster.node("store-2", folder.path)).rejects.toMatchObject({ code: "CLUSTER_MISMATCH" });
    await using other = await StoreCluster.create();
    await expect(other.node("store-1", folder.path)).rejects.toMatchObject({ code: "CLUSTER_MISMATCH" });
    await rm(`${folder.path}/format`);
    await expect(cluster.node("store-1", folder.path)).rejects.toMatchObject({ code: "INVALID_CONFIG" });
  });
});

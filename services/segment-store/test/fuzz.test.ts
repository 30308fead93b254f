import { describe, expect, jest, test } from "@jest/globals";
import { connect } from "node:net";
import * as fc from "fast-check";
import { appendCodec, readCodec } from "@sluice/link";
import { systemClock } from "@sluice/runtime";
import { CALL_MS, StoreCluster, type RunningNode } from "./cluster.ts";
import { batch, NO_PRODUCERS, offsetsOf, temporaryFolder, TOPIC } from "./support.ts";

// A busy machine must not fail a test that waits for disks and sockets.
jest.setTimeout(30_000);

const u32 = fc.oneof(fc.nat(5), fc.integer({ min: 0, max: 0xffff_ffff }));
const double = fc.oneof(
  fc.integer({ min: -3, max: 30 }),
  fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, -1e300, 2 ** 53, 2 ** 53 - 1, 0.5, -0),
  fc.double(),
);
const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 200 }),
  fc.tuple(fc.nat(20), fc.nat(2000), fc.nat(), fc.integer({ min: 0, max: 255 })).map(([first, size, at, value]) => {
    // A batch with one byte changed: perhaps its length, its count, its offsets.
    const b = batch({ first, bytes: size });
    b[at % 61] = value;
    return b;
  }),
);
const i64 = fc.oneof(fc.bigInt({ min: -3n, max: 30n }), fc.constantFrom(-(2n ** 63n), 2n ** 63n - 1n, 2n ** 53n));
const text = fc.oneof(fc.string({ maxLength: 300 }), fc.constantFrom("", "n", TOPIC as string));
const addressArb = fc.option(fc.record({ topicId: fc.oneof(text, fc.constant(TOPIC as string)), partition: u32, epoch: u32, k: u32 }), {
  nil: undefined,
});
const address = addressArb as fc.Arbitrary<{ topicId: string; partition: number; epoch: number; k: number }>;

async function stillServes(node: RunningNode, p: number): Promise<void> {
  const s = await node.create(p, 0, 1, 0);
  const client = await node.connect();
  client.append(s, 0, 4);
  expect(await client.until(s, 4)).toMatchObject({ code: 0, durable: 4 });
  expect(offsetsOf((await client.read(p, 0, { hw: 4 })).payload)).toEqual({ first: 0, last: 4, batches: 5 });
  client.link.close();
}

describe("whatever a peer sends, the node goes on for the others", () => {
  test("append and read frames with hostile fields and payloads", async () => {
    await using folder = await temporaryFolder();
    await using cluster = await StoreCluster.create();
    const node = await cluster.node("store-1", folder.path);
    const s = await node.create(0);
    let client = await node.connect();
    client.append(s, 0, 9);
    await client.until(s, 9);
    const frame = fc.oneof(
      fc.record({
        kind: fc.constant("append" as const),
        segmentNumber: fc.oneof(fc.constant(s), u32),
        epoch: u32,
        base: double,
        firstOffset: double,
        lastOffset: double,
        lac: double,
        barrier: u32,
        annotations: fc.uint8Array({ maxLength: 40 }),
        payload: bytes,
      }),
      fc.record({
        kind: fc.constant("read" as const),
        topicId: fc.constant(TOPIC as string),
        partition: u32,
        segmentEpoch: u32,
        segmentK: u32,
        maxBytes: u32,
        from: double,
        highWatermark: double,
        highWatermarkEpoch: fc.integer({ min: -5, max: 5 }),
      }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(frame, { minLength: 1, maxLength: 20 }), async (frames) => {
        if (client.link.closed) client = await node.connect();
        for (const f of frames) {
          if (client.link.closed) client = await node.connect();
          if (f.kind === "append") client.link.send(appendCodec, 0, f, f.payload);
          else client.link.request(readCodec, f, new Uint8Array(0), CALL_MS, (answer) => client.link.release(answer?.creditBytes ?? 0));
        }
        await new Promise<void>((resolve) => void setImmediate(resolve));
      }),
      { numRuns: 40 },
    );
    client.link.close();
    await stillServes(node, 1);
    const again = await node.connect();
    expect(offsetsOf((await again.read(0, 0, { hw: 9 })).payload).last).toBe(9);
  });

  test("control calls with hostile values are answered with a code or INVALID_ARGUMENT, never INTERNAL", async () => {
    await using folder = await temporaryFolder();
    await using cluster = await StoreCluster.create();
    const node = await cluster.node("store-1", folder.path);
    const call = { timeoutMs: CALL_MS };
    const inc = fc.oneof(text, fc.constant(node.incarnation));
    const producers = fc.oneof(fc.uint8Array({ maxLength: 60 }), fc.constant(NO_PRODUCERS));
    const request = fc.oneof(
      fc
        .array(fc.record({ address, base: fc.option(i64, { nil: undefined }), incarnation: inc, nonce: text, producers }), { maxLength: 3 })
        .map((segments) => () => node.client.createSegments({ segments: segments as never }, call)),
      fc
        .array(fc.record({ address, epoch: u32, incarnation: inc }), { maxLength: 3 })
        .map((segments) => () => node.client.fenceSegments({ segments }, call)),
      fc
        .array(fc.record({ address, end: i64, epoch: u32 }), { maxLength: 3 })
        .map((segments) => () => node.client.sealSegments({ segments }, call)),
      fc
        .record({ address, epoch: u32, base: i64, firstOffset: i64, lastOffset: i64, payload: bytes })
        .map((r) => () => node.client.recoveryAppend(r, call)),
      fc.record({ address, epoch: u32, from: i64, maxBytes: u32 }).map((r) => () => node.client.recoveryRead(r, call)),
      fc
        .record({ address, base: i64, end: i64, incarnation: inc, keyRevision: i64, producers })
        .map((r) => () => node.client.rebuild(r, call)),
      fc.record({ address, timestampMs: i64 }).map((r) => () => node.client.lookupTimestamp(r, call)),
    );
    await fc.assert(
      fc.asyncProperty(request, async (send) => {
        const code = await send().then(
          () => "OK",
          (error: unknown) => (error as { code?: string }).code,
        );
        expect(["OK", "INVALID_ARGUMENT"]).toContain(code);
      }),
      { numRuns: 150 },
    );
    await node.client.fenceSegments({ segments: Array.from({ length: 300 }, () => ({ epoch: 1 })) }, call).then(
      () => {
        throw new Error("300 segments in one call were taken");
      },
      (error: unknown) => expect(error).toMatchObject({ code: "INVALID_ARGUMENT" }),
    );
    await stillServes(node, 77);
  });

  test("bytes that are no protocol at all", async () => {
    await using folder = await temporaryFolder();
    await using cluster = await StoreCluster.create();
    const node = await cluster.node("store-1", folder.path);
    const [host, port] = (node.service.endpoints()["link"] as string).split(":") as [string, string];
    for (const junk of [new Uint8Array(70_000).fill(255), new TextEncoder().encode("GET / HTTP/1.1\r\n\r\n"), new Uint8Array([1])]) {
      await new Promise<void>((resolve) => {
        const socket = connect(Number(port), host, () => socket.write(junk));
        const end = (): void => {
          socket.destroy();
          resolve();
        };
        socket.on("error", end).on("close", end);
        systemClock.setTimer(200, end);
      });
    }
    await stillServes(node, 3);
  });
});

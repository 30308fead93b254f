import { describe, expect, test } from "@jest/globals";
import { crc32c } from "@sluice/codec";
import type { ClusterView } from "@sluice/catalog";
import { stampBatch } from "@sluice/core/log";
import { errorNumber, memberId, timers, type ErrorCode, type MemberId } from "@sluice/core/model";
import type { ProduceCall, ProduceRouter, SegmentReader } from "@sluice/partition-client";
import { BrokerService } from "@sluice/proto/internal/v1/broker";
import { createRpcServer, defineAccess, implement } from "@sluice/rpc";
import { createListener, systemClock } from "@sluice/runtime";
import { RecordingLogger } from "@sluice/runtime/testing";
import { BrokerOffsets } from "../src/broker-offsets.ts";
import { PartitionLog } from "../src/partition-log.ts";
import { PARTITION } from "./support/world.ts";

const soon = (): number => systemClock.monotonicMs() + 10_000;
const record = (n: number, value: Uint8Array | null = Uint8Array.of(n)) => ({ key: Uint8Array.of(1, n), value });
const condition = { expectedBaseOffset: 0, fenceToken: 3, deadlineMs: 0 };

/** A partition log over a router that keeps what it was given and a reader that gives it back, stamped. */
function logOver(answer: (call: ProduceCall) => number = () => 0) {
  const calls: ProduceCall[] = [];
  let next = 0;
  const stored: { base: number; batch: Uint8Array }[] = [];
  const router = {
    produce(call: ProduceCall) {
      calls.push(call);
      const code = answer(call);
      const records = new DataView(call.batch.buffer, call.batch.byteOffset).getInt32(57);
      if (code === 0) {
        const batch = call.batch.slice();
        stampBatch(batch, 0, next, 1);
        stored.push({ base: next, batch });
        next += records;
      }
      call.done({ code, baseOffset: next - records, lastOffset: next - 1, appendTimeMs: -1, logStart: 0, throttleMs: 0 });
    },
  } as unknown as ProduceRouter;
  const damage = { at: -1 };
  const reader = {
    read(_p: unknown, offset: number) {
      const from = stored.filter((_, i) => (stored[i + 1]?.base ?? next) > offset);
      const bytes = new Uint8Array(from.reduce((n, s) => n + s.batch.length, 0));
      let at = 0;
      for (const { batch } of from) {
        bytes.set(batch, at);
        at += batch.length;
      }
      if (damage.at >= 0) bytes[damage.at] = 0xff;
      return Promise.resolve({ batches: bytes, nextOffset: next, from: "storage node" });
    },
  } as unknown as SegmentReader;
  const marks = { epoch: 1, logStart: 0, lastStable: 0, highWatermark: 0 };
  const offsets = { marks: () => Promise.resolve({ ...marks, highWatermark: next }) } as unknown as BrokerOffsets;
  const log = new PartitionLog({ clock: systemClock, crc32c, partition: () => PARTITION, router, reader, offsets });
  return { log, calls, damage };
}

describe("the log of a shard as a partition", () => {
  test("gives back what was appended, from any offset on, up to the end asked for", async () => {
    const { log, calls } = logOver();
    expect(await log.append([record(1), record(2), record(3)], condition)).toEqual({ kind: "stored", baseOffset: 0 });
    expect(await log.append([record(4, null)], { ...condition, expectedBaseOffset: 3 })).toEqual({ kind: "stored", baseOffset: 3 });
    expect(calls.map((c) => [c.expectedBaseOffset, c.fenceToken, c.idempotent])).toEqual([
      [0, 3, false],
      [3, 3, false],
    ]);
    const end = await log.end(soon());
    expect(end).toBe(4);
    const all = await log.read(0, end);
    expect(all.map((r) => [r.offset, r.key?.[1], r.value?.[0]])).toEqual([
      [0, 1, 1],
      [1, 2, 2],
      [2, 3, 3],
      [3, 4, undefined],
    ]);
    expect((await log.read(1, 3)).map((r) => r.offset)).toEqual([1, 2]);
  });

  test.each<[ErrorCode, string]>([
    ["UNEXPECTED_OFFSET", "conflict"],
    ["FENCED_TOKEN", "fenced"],
    ["NOT_OWNER", "refused"],
    ["OVERLOADED", "refused"],
    ["SHUTTING_DOWN", "refused"],
    ["OUTCOME_UNKNOWN", "unknown"],
    ["TIMED_OUT", "unknown"],
    ["INTERNAL", "unknown"],
  ])("takes %s for %s", async (code, kind) => {
    const { log } = logOver(() => errorNumber(code));
    expect((await log.append([record(1)], condition)).kind).toBe(kind);
  });

  test("does not send what fits no batch, and goes on after it", async () => {
    const { log, calls } = logOver();
    const large = record(1, new Uint8Array(600 * 1024));
    expect(await log.append([large, large], condition)).toEqual({ kind: "refused", code: "MESSAGE_TOO_LARGE" });
    expect(calls).toEqual([]);
    expect(await log.append([record(2)], condition)).toEqual({ kind: "stored", baseOffset: 0 });
    expect((await log.read(0, await log.end(soon()))).length).toBe(1);
  });

  test("never shows records of a damaged copy", async () => {
    const { log, damage } = logOver();
    await log.append([record(1), record(2)], condition);
    damage.at = 70;
    await expect(log.read(0, 2)).rejects.toMatchObject({ code: "READ_UNAVAILABLE" });
    damage.at = -1;
    expect(await log.read(0, 2)).toHaveLength(2);
  });
});

describe("the confirmed end of a partition", () => {
  test("is asked again while the partition moves, until an owner answers, or its topic is deleted", async () => {
    const access = defineAccess(BrokerService, {
      partitionOffsets: { resource: "cluster", operation: "internal" },
      describeBroker: { resource: "cluster", operation: "internal" },
    });
    let refusals = 2;
    const server = createRpcServer({
      listener: createListener("rpc", { bind: "127.0.0.1:0" }),
      logger: new RecordingLogger(),
      clock: systemClock,
      services: [
        implement(access, {
          partitionOffsets: () =>
            refusals-- > 0
              ? { code: errorNumber("PARTITION_RECOVERING"), message: "not yet" }
              : { epoch: 4, logStartOffset: 2n, lastStableOffset: 8n, highWatermark: 9n },
          describeBroker: () => ({}),
        }),
      ],
    });
    await server.start();
    let isDeleted = false;
    const owners: (MemberId | undefined)[] = [undefined, memberId("broker-gone")];
    const view = {
      member: (_service: string, id: string) => (id === "broker-1" ? { endpoints: { rpc: server.address } } : undefined),
      membersOf: () => [{ endpoints: { rpc: server.address } }],
      isGone: () => isDeleted,
    } as unknown as ClusterView;
    const ownerOf = (): MemberId | undefined => (owners.length > 0 ? owners.shift() : memberId("broker-1"));
    const offsets = new BrokerOffsets({ clock: systemClock, timers, view, ownerOf });
    try {
      expect(await offsets.marks(PARTITION, soon())).toEqual({ epoch: 4, logStart: 2, lastStable: 8, highWatermark: 9 });
      expect(refusals).toBe(-1);
      refusals = 1_000;
      const late = offsets.marks(PARTITION, systemClock.monotonicMs() + 60);
      const refused = expect.stringMatching(/^(PARTITION_RECOVERING|TIMED_OUT)$/) as unknown;
      await expect(late).rejects.toMatchObject({ code: refused });
      const waiting = offsets.marks(PARTITION, soon());
      isDeleted = true;
      await expect(waiting).rejects.toMatchObject({ code: "UNKNOWN_TOPIC" });
    } finally {
      offsets.close();
      await server.stop();
    }
  });
});

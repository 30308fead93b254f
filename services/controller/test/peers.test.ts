import { createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { instanceId, memberId, timers, type MemberRecord } from "@sluice/core/model";
import { SegmentStoreService } from "@sluice/proto/internal/v1/segment_store";
import { createRpcServer, defineAccess, implement, type RpcServer } from "@sluice/rpc";
import { createListener, systemClock } from "@sluice/runtime";
import { RecordingLogger } from "@sluice/runtime/testing";
import { createNetworkPeers } from "../src/peers.ts";

const peers = createNetworkPeers({ clock: systemClock, timers });
const internal = { resource: "cluster", operation: "internal" } as const;
const unused = () => ({});
let truncated = false;
let server: RpcServer;

beforeAll(async () => {
  const address = { topicId: "t", partition: 2, epoch: 3, k: 4 };
  const names = [
    "createSegments",
    "fenceSegments",
    "sealSegments",
    "recoveryAppend",
    "recoveryRead",
    "rebuild",
    "lookupTimestamp",
    "describeNode",
  ];
  const table = Object.fromEntries(names.map((n) => [n, internal])) as Parameters<typeof defineAccess<typeof SegmentStoreService>>[1];
  const service = implement(defineAccess(SegmentStoreService, table), {
    createSegments: unused,
    fenceSegments: unused,
    sealSegments: unused,
    recoveryAppend: unused,
    recoveryRead: unused,
    rebuild: unused,
    lookupTimestamp: unused,
    describeNode: () => ({
      truncated,
      segments: [
        { address, status: "SEALED" },
        { address: { ...address, k: 5 }, status: "DELETED" },
      ],
    }),
  });
  const listener = createListener("rpc", { bind: "127.0.0.1:0" });
  server = createRpcServer({ listener, services: [service], logger: new RecordingLogger(), clock: systemClock });
  await server.start();
});
afterAll(async () => {
  peers.close();
  await server.stop();
});
const node = (rpc?: string): MemberRecord => ({
  service: "segment-store",
  id: memberId("s-1"),
  instance: instanceId("i"),
  numericId: 1,
  zone: "a",
  endpoints: { ...(rpc !== undefined && { rpc }) },
  version: "test",
  draining: false,
});

describe("peers on the network", () => {
  test("a listener is open, a closed port refuses", async () => {
    const listening = createServer();
    await new Promise<void>((resolve) => void listening.listen(0, "127.0.0.1", resolve));
    const { port } = listening.address() as { port: number };
    expect(await peers.probe(`127.0.0.1:${port}`, 2_000)).toBe("open");
    await new Promise((resolve) => void listening.close(resolve));
    expect(await peers.probe(`127.0.0.1:${port}`, 2_000)).toBe("refused");
  });
  test("no answer in time is neither open nor refused", async () => {
    // The time is over before the connection can be there.
    const setTimer = (_delayMs: number, fn: () => void) => (queueMicrotask(fn), { cancel: () => undefined });
    const hasty = createNetworkPeers({ clock: { ...systemClock, setTimer }, timers });
    expect(await hasty.probe(server.address, 1_000)).toBe("timeout");
    hasty.close();
  });
  test("segments of a node: those it holds, by partition and segment", async () => {
    expect([...(await peers.segmentsOf(node(server.advertised), new AbortController().signal))]).toEqual(["t/2/3-4"]);
  });
  test("a list that is cut short is no list, and a node without an endpoint cannot be asked", async () => {
    truncated = true;
    const signal = new AbortController().signal;
    await expect(peers.segmentsOf(node(server.advertised), signal)).rejects.toMatchObject({ code: "OVERLOADED" });
    await expect(peers.segmentsOf(node(), signal)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });
});

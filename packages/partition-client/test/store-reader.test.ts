import { expect, test } from "@jest/globals";
import type { ClusterView, ViewChange } from "@sluice/catalog";
import { epoch, incarnation, memberId, timers, type Incarnation } from "@sluice/core/model";
import { listenLinks, RECONNECT_LARGEST_MS, type LinkContext, type LinkServer } from "@sluice/link";
import { silentLogger, systemClock, systemRandom } from "@sluice/runtime";
import { StoreReader } from "../src/index.ts";
import { partition } from "./support/fakes.ts";

const node = memberId("store-1");
const contextOf = (service: "segment-store" | "coordinator", of = ""): LinkContext => ({
  clock: systemClock,
  random: systemRandom,
  logger: silentLogger,
  timers,
  // As in a cluster: then the refusal comes before the link is open.
  secret: new Uint8Array(16).fill(7),
  identity: {
    clusterId: "c",
    generation: 1,
    service,
    memberId: service === "segment-store" ? node : memberId("coordinator-1"),
    instance: "i",
    incarnation: of,
    zone: "a",
  },
});
const listen = (of: Incarnation, address: string): Promise<LinkServer> =>
  listenLinks(contextOf("segment-store", of), {
    address,
    handlers: { onFrame: (link, frame) => link.sendError(frame.correlation, frame.type, "UNKNOWN_SEGMENT", "") },
  });

test("a node that was formatted anew is not dialled as its old self, whoever reads", async () => {
  const [old, anew] = [incarnation("old"), incarnation("anew")];
  let server = await listen(old, "127.0.0.1:0");
  const { address } = server;
  const member = { incarnation: old, endpoints: { link: address } };
  const listeners = new Set<(changes: readonly ViewChange[]) => void>();
  const view = {
    member: () => member,
    membersOf: () => [member],
    onChange(listener: (changes: readonly ViewChange[]) => void) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  } as unknown as ClusterView;
  const reader = new StoreReader(contextOf("coordinator"), view);
  const read = { partition, segment: { epoch: epoch(1), k: 0 }, from: 0, maxBytes: 1, committed: -1, committedEpoch: -1 };
  await expect(reader.read({ node, incarnation: old }, read)).rejects.toMatchObject({ code: "UNKNOWN_SEGMENT" });

  await server.close();
  server = await listen(anew, address);
  member.incarnation = anew;
  for (const listener of listeners) listener([{ kind: "member", service: "segment-store", id: node }]);
  const { refused } = server.totals;
  await systemClock.sleep(RECONNECT_LARGEST_MS + 200);
  expect(server.totals.refused).toBe(refused);
  await expect(reader.read({ node, incarnation: anew }, read)).rejects.toMatchObject({ code: "UNKNOWN_SEGMENT" });
  reader.close();
  expect(listeners.size).toBe(0);
  await server.close();
});

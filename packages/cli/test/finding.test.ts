import { expect, test } from "@jest/globals";
import type { ClusterDescription } from "@sluice/client";
import { findingOf } from "../src/silence-watch.ts";

const cluster = (more: Partial<ClusterDescription>): ClusterDescription => ({
  clusterId: "c",
  generation: 1,
  members: [],
  controller: "controller-1",
  topics: 1,
  topicsInternal: 0,
  partitions: 1,
  partitionsOffline: 0,
  partitionsUnwritable: 0,
  unwritableReason: "",
  metadataStale: false,
  ...more,
});
test("what keeps a writer, and what a reader", () => {
  const starved = cluster({ partitionsUnwritable: 1, unwritableReason: "NOT_ENOUGH_REPLICAS" });
  expect(findingOf(starved, true)).toEqual({ kind: "unwritable", text: "storage nodes 0 of at least 2 (NOT_ENOUGH_REPLICAS)" });
  expect(findingOf(starved, false)).toEqual({ kind: "fine" });
  expect(findingOf(cluster({ metadataStale: true }), true)).toMatchObject({
    kind: "stale",
    text: expect.stringContaining("metadata store"),
  });
  expect(findingOf(cluster({ metadataStale: true }), false)).toEqual({ kind: "fine" });
  for (const writes of [true, false])
    expect(findingOf(cluster({ partitionsOffline: 1 }), writes)).toEqual({ kind: "offline", text: "1 partition without a broker" });
  expect(findingOf(cluster({}), true)).toEqual({ kind: "fine" });
});

// A storage node of its own in a process, for tests that kill it: metadata in one SQLite file, data in one folder.
// node store-process.ts <metadata file> <folder> ; prints one line of JSON when it serves.
import { createKeys, ensureCluster } from "@sluice/catalog";
import { instanceId, memberId, scaleTimers } from "@sluice/core/model";
import { openEmbeddedMetadata } from "@sluice/metadata";
import { createHealth, createListener, createLogger, createMetrics, systemClock, systemRandom } from "@sluice/runtime";
import { createSegmentStore } from "../src/service.ts";

const [metadata, folder] = process.argv.slice(2) as [string, string];
const store = openEmbeddedMetadata({ path: metadata, clock: systemClock });
const keys = createKeys("test");
const cluster = await ensureCluster(store, keys, { random: systemRandom, shardCount: 1 });
const node = createSegmentStore({
  environment: {
    clock: systemClock,
    random: systemRandom,
    logger: createLogger({ level: "warn" }),
    timers: scaleTimers(1),
    store,
    keys,
    objectStore: undefined,
    secret: undefined,
    version: "test",
  },
  identity: { id: memberId("store-1"), instance: instanceId(systemRandom.uuid()), zone: "a" },
  metrics: createMetrics({ service: "store" }),
  health: createHealth("segment-store", systemClock),
  linkListener: createListener("link", { bind: "127.0.0.1:0" }),
  rpcListener: createListener("rpc", { bind: "127.0.0.1:0" }),
  folder,
  capacityBytes: 0,
  limits: { journalFileBytes: 4 * 1024 * 1024, checkpointBytes: 8 * 1024 * 1024 },
});
await node.start();
process.stdout.write(`${JSON.stringify({ ...node.endpoints(), incarnation: node.incarnation, clusterId: cluster.clusterId })}\n`);

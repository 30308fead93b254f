import { join } from "node:path";
import { createHealth, createHealthServer, createMetrics, listenerOf, processMetrics, runService } from "@sluice/runtime";
import { openEnvironment, VERSION } from "@sluice/service";
import { segmentStoreConfig } from "./config.ts";
import { nodeDisk } from "./disk/disk.ts";
import { formattedNode } from "./disk/format.ts";
import { createSegmentStore } from "./service.ts";

await runService("segment-store", segmentStoreConfig, async ({ config, logger, clock, random }) => {
  const folder = config["data.folder"];
  // A node keeps the name that its folder has; a folder without one is given a name.
  const id = config.id ?? (await formattedNode(nodeDisk, join(folder, "format")));
  const metrics = createMetrics({ service: "store" });
  const opened = await openEnvironment("segment-store", id === undefined ? config : { ...config, id }, { logger, clock, random, metrics });
  const health = createHealth("segment-store", clock);
  const healthServer = createHealthServer({
    listener: listenerOf(config, "health"),
    logger,
    version: VERSION,
    services: [health],
    metrics: [metrics, processMetrics()],
  });
  const node = createSegmentStore({
    environment: opened.environment,
    identity: opened.identity,
    metrics,
    health,
    linkListener: listenerOf(config, "link"),
    rpcListener: listenerOf(config, "rpc"),
    metricsAddress: () => healthServer.advertised,
    folder,
    capacityBytes: config["disk.capacityBytes"],
    limits: {
      journalFileBytes: config["journal.fileBytes"],
      checkpointBytes: config["checkpoint.bytes"],
      readConcurrency: config["read.concurrency"],
    },
    uploadsMax: config["offload.concurrency"],
    takeOverMs: config["offload.takeOverAfter"],
  });
  return {
    name: "segment-store",
    drainMs: opened.environment.timers.shutdownMs,
    endpoints: () => ({ ...node.endpoints(), metrics: healthServer.advertised }),
    async start() {
      await healthServer.start();
      await node.start();
    },
    drain: () => node.drain(),
    async stop() {
      await node.stop();
      await healthServer.stop();
      await opened.close();
    },
  };
});

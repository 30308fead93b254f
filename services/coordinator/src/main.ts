import { createHealth, createHealthServer, createMetrics, listenerOf, processMetrics, runService } from "@sluice/runtime";
import { openEnvironment, VERSION } from "@sluice/service";
import { coordinatorConfig, groupSettings } from "./config.ts";
import { createCoordinator } from "./service.ts";

await runService("coordinator", coordinatorConfig, async ({ config, logger, clock, random }) => {
  const opened = await openEnvironment("coordinator", config, { logger, clock, random });
  const metrics = createMetrics({ service: "coordinator" });
  const health = createHealth("coordinator", clock);
  const healthServer = createHealthServer({
    listener: listenerOf(config, "health"),
    logger,
    version: VERSION,
    services: [health],
    metrics: [metrics, processMetrics()],
  });
  const coordinator = createCoordinator({
    environment: opened.environment,
    identity: opened.identity,
    metrics,
    health,
    rpcListener: listenerOf(config, "rpc"),
    metricsAddress: () => healthServer.advertised,
    ...groupSettings(config),
    snapshotPolicy: { records: config["snapshot.records"], bytes: config["snapshot.bytes"] },
  });
  return {
    name: "coordinator",
    drainMs: opened.environment.timers.shutdownMs,
    endpoints: () => ({ ...coordinator.endpoints(), metrics: healthServer.advertised }),
    async start() {
      await healthServer.start();
      await coordinator.start();
    },
    drain: () => coordinator.drain(),
    async stop() {
      await coordinator.stop();
      await healthServer.stop();
      await opened.close();
    },
  };
});

import { createHealth, createHealthServer, createMetrics, listenerOf, processMetrics, runService } from "@sluice/runtime";
import { openEnvironment, VERSION } from "@sluice/service";
import { brokerConfig } from "./config.ts";
import { createBroker } from "./service.ts";

await runService("broker", brokerConfig, async ({ config, logger, clock, random }) => {
  const metrics = createMetrics({ service: "broker" });
  const opened = await openEnvironment("broker", config, { logger, clock, random, metrics });
  const health = createHealth("broker", clock);
  const healthServer = createHealthServer({
    listener: listenerOf(config, "health"),
    logger,
    version: VERSION,
    services: [health],
    metrics: [metrics, processMetrics()],
  });
  const broker = createBroker({
    environment: opened.environment,
    identity: opened.identity,
    metrics,
    health,
    linkListener: listenerOf(config, "link"),
    rpcListener: listenerOf(config, "rpc"),
    metricsAddress: () => healthServer.advertised,
    pendingBytesMax: config["append.pendingBytesMax"],
  });
  return {
    name: "broker",
    drainMs: opened.environment.timers.shutdownMs,
    endpoints: () => ({ ...broker.endpoints(), metrics: healthServer.advertised }),
    async start() {
      await healthServer.start();
      await broker.start();
    },
    drain: () => broker.drain(),
    async stop() {
      await broker.stop();
      await healthServer.stop();
      await opened.close();
    },
  };
});

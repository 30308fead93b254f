import { createHealth, createHealthServer, createMetrics, listenerOf, processMetrics, runService } from "@sluice/runtime";
import { openEnvironment, VERSION } from "@sluice/service";
import { controllerConfig, limitsOf } from "./config.ts";
import { createController } from "./service.ts";

await runService("controller", controllerConfig, async ({ config, logger, clock, random }) => {
  const opened = await openEnvironment("controller", config, { logger, clock, random });
  const metrics = createMetrics({ service: "controller" });
  const health = createHealth("controller", clock);
  const healthServer = createHealthServer({
    listener: listenerOf(config, "health"),
    logger,
    version: VERSION,
    services: [health],
    metrics: [metrics, processMetrics()],
  });
  const controller = createController({
    environment: opened.environment,
    identity: opened.identity,
    metrics,
    health,
    rpcListener: listenerOf(config, "rpc"),
    shardCount: config["cluster.shards"],
    limits: limitsOf(config),
    metricsAddress: () => healthServer.advertised,
  });
  return {
    name: "controller",
    drainMs: opened.environment.timers.shutdownMs,
    endpoints: () => ({ ...controller.endpoints(), metrics: healthServer.advertised }),
    async start() {
      await healthServer.start();
      await controller.start();
    },
    drain: () => controller.drain(),
    async stop() {
      await controller.stop();
      await healthServer.stop();
      await opened.close();
    },
  };
});

import {
  createHealth,
  createHealthServer,
  createMetrics,
  listenerOf,
  optionalListenerOf,
  processMetrics,
  runService,
} from "@sluice/runtime";
import { openEnvironment, VERSION } from "@sluice/service";
import { proxyConfig } from "./config.ts";
import { createProxy } from "./service.ts";

await runService("proxy", proxyConfig, async ({ config, logger, clock, random }) => {
  const metrics = createMetrics({ service: "proxy" });
  const opened = await openEnvironment("proxy", config, { logger, clock, random, metrics });
  const { id, zone } = opened.identity;
  const kafkaOutside = optionalListenerOf(config, "kafkaOutside", { id, zone, host: config.host ?? "" });
  const health = createHealth("proxy", clock);
  const healthServer = createHealthServer({
    listener: listenerOf(config, "health"),
    logger,
    version: VERSION,
    services: [health],
    metrics: [metrics, processMetrics()],
  });
  const proxy = createProxy({
    environment: opened.environment,
    identity: opened.identity,
    metrics,
    health,
    grpcListener: listenerOf(config, "grpc"),
    kafkaListener: listenerOf(config, "kafka"),
    ...(kafkaOutside === undefined ? {} : { kafkaOutsideListener: kafkaOutside }),
    kafka: { autoCreateTopics: config["kafka.autoCreateTopics"], partitionsDefault: config["kafka.partitionsDefault"] },
    metricsAddress: () => healthServer.advertised,
    heldBytesMax: config["produce.heldBytesMax"],
    tailCacheBytes: config["cache.tailBytes"],
    blockCacheBytes: config["cache.blockBytes"],
  });
  return {
    name: "proxy",
    drainMs: opened.environment.timers.shutdownMs,
    endpoints: () => ({ ...proxy.endpoints(), metrics: healthServer.advertised }),
    async start() {
      await healthServer.start();
      await proxy.start();
    },
    drain: () => proxy.drain(),
    async stop() {
      await proxy.stop();
      await healthServer.stop();
      await opened.close();
    },
  };
});

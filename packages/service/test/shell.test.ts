import { expect, test } from "@jest/globals";
import { clusterCodec, createKeys } from "@sluice/catalog";
import { scaleTimers } from "@sluice/core/model";
import { openEmbeddedMetadata } from "@sluice/metadata";
import { createHealth, silentLogger, systemClock, systemRandom } from "@sluice/runtime";
import { ServiceShell, type ServiceEnvironment } from "../src/index.ts";

const keys = createKeys("test");
const cluster = {
  clusterId: "0c0ffee0-0000-4000-8000-000000000001",
  generation: 0,
  featureLevel: 1,
  shardCount: 2,
  shardHash: "murmur2",
} as const;

function setup() {
  const store = openEmbeddedMetadata({ path: ":memory:", clock: systemClock });
  const environment: ServiceEnvironment = {
    clock: systemClock,
    random: systemRandom,
    logger: silentLogger,
    timers: scaleTimers(0.02),
    store,
    keys,
    objectStore: undefined,
    secret: undefined,
    version: "test",
  };
  const events: string[] = [];
  const parts = {
    start: async () => void events.push("start"),
    stop: async () => void events.push("stop"),
    endpoints: () => ({ rpc: "here" }),
  };
  const health = createHealth("x", systemClock);
  const shell = new ServiceShell({
    environment,
    health,
    build: (record) => {
      events.push(`build ${record.shardCount}`);
      return parts;
    },
  });
  const makeCluster = () => store.txn({ compare: [], then: [{ kind: "put", key: keys.cluster, value: clusterCodec.encode(cluster) }] });
  return { store, shell, events, health, makeCluster };
}

test("waits for the cluster, then builds and starts; drains within one deadline; stops once", async () => {
  const { store, shell, events, health, makeCluster } = setup();
  const started = shell.start();
  await systemClock.sleep(20);
  expect([shell.parts, shell.endpoints(), events]).toEqual([undefined, {}, []]);
  await makeCluster();
  await started;
  expect([shell.endpoints(), events]).toEqual([{ rpc: "here" }, ["build 2", "start"]]);
  let left = -1;
  await shell.drain(async (_parts, deadline) => {
    await new Promise((resolve) => deadline.signal.addEventListener("abort", resolve));
    left = deadline.remainingMs();
  });
  expect(left).toBe(0);
  expect((await health.report("ready")).ok).toBe(false);
  await shell.stop();
  await shell.stop();
  expect(events).toEqual(["build 2", "start", "stop"]);
  await store.close();
});

test("a stop ends a start that still waits, and there is nothing to drain", async () => {
  const { store, shell, events } = setup();
  const started = shell.start().catch((error: { name: string }) => error.name);
  await systemClock.sleep(5);
  await shell.drain(() => Promise.reject(new Error("no parts")));
  await shell.stop();
  expect(await started).toBe("AbortError");
  expect(events).toEqual([]);
  await store.close();
});

import { describe, expect, test } from "@jest/globals";
import {
  createHealth,
  createHealthServer,
  createListener,
  createMetrics,
  processMetrics,
  renderMetrics,
  silentLogger,
} from "../src/index.ts";
import { ManualClock } from "../src/testing/index.ts";

describe("metrics", () => {
  test.each([
    ["sluice_proxy_requests_total", "service"],
    ["sluice_broker_requests", "unit"],
    ["sluice_broker_Requests_total", "form"],
    ["sluice_broker_size_bytes", "a counter without _total"],
  ])("%s is refused: %s", (name) => {
    expect(() => createMetrics({ service: "broker" }).counter(name, "h")).toThrow(/metric sluice_/);
  });

  test("services of one process keep their series apart under one header", async () => {
    const [a, b] = ["store-1", "store-2"].map((instance) => createMetrics({ service: "store", instance }));
    a!.counter("sluice_store_appends_total", "Appends.").inc(2);
    b!.counter("sluice_store_appends_total", "Appends.").inc(3);
    b!.gauge("sluice_store_free_bytes", "Free.", { collect: () => 77 });
    const text = await renderMetrics([a!, b!]);
    expect(text.match(/# TYPE sluice_store_appends_total counter/g)).toHaveLength(1);
    expect(text).toContain('sluice_store_appends_total{instance="store-1"} 2');
    expect(text).toContain('sluice_store_appends_total{instance="store-2"} 3');
    expect(text).toContain('sluice_store_free_bytes{instance="store-2"} 77');
  });

  test("label values beyond the limit share one series, and removed ones make room", async () => {
    const metrics = createMetrics({ service: "proxy" });
    const counter = metrics.counter("sluice_proxy_records_total", "Records.", { labels: ["topic"], seriesMax: 2 });
    for (const topic of ["a", "b", "c", "d", "a"]) counter.labels(topic).inc();
    expect(counter.labels("a")).toBe(counter.labels("a"));
    expect(await metrics.value("sluice_proxy_records_total", { topic: "a" })).toBe(2);
    expect(await metrics.value("sluice_proxy_records_total", { topic: "_overflow" })).toBe(2);
    expect(await metrics.value("sluice_proxy_records_total", { topic: "c" })).toBeUndefined();
    counter.remove("a");
    expect(await metrics.value("sluice_proxy_records_total", { topic: "a" })).toBeUndefined();
    expect(() => counter.labels("x", "y")).toThrow(/2 label values/);
  });
});

describe("health endpoints", () => {
  test("probes tell the reason, metrics and version are there, unknown paths are not", async () => {
    const clock = new ManualClock();
    const broker = createHealth("broker", clock);
    const store = createHealth("store", clock);
    let etcd: true | string = "no answer from etcd";
    broker.ready("etcd", () => etcd);
    store.ready("disk", () => Promise.reject(new Error("disk is gone")));
    store.live("journal", () => true);
    const server = createHealthServer({
      listener: createListener("health", { bind: "127.0.0.1:0", advertised: "10.1.2.3:0" }),
      logger: silentLogger,
      version: "1.2.3",
      services: [broker],
      metrics: [processMetrics()],
    });
    await server.start();
    const get = async (path: string) => {
      const response = await fetch(`http://${server.address}${path}`);
      return { status: response.status, text: await response.text() };
    };
    expect(server.advertised).toBe(`10.1.2.3:${server.port}`);
    expect((await get("/startupz")).status).toBe(503);
    // No restart brings another system sooner: started as far as this process goes, and not ready.
    broker.markWaiting("the metadata store");
    expect((await get("/startupz")).status).toBe(200);
    expect((await get("/readyz")).text).toContain('"broker/started":"waiting for the metadata store"');
    broker.markWaiting(undefined);
    expect((await get("/startupz")).status).toBe(503);
    broker.markStarted();
    expect(await get("/readyz")).toMatchObject({ status: 503, text: expect.stringContaining('"broker/etcd":"no answer from etcd"') });
    etcd = true;
    expect((await get("/readyz")).status).toBe(200);
    expect((await get("/startupz")).status).toBe(200);
    server.add(store);
    store.markStarted();
    expect((await get("/readyz")).text).toContain('"store/disk":"disk is gone"');
    expect((await get("/livez")).status).toBe(200);
    // A warning is told, and is no reason against readiness.
    let full: true | string = true;
    broker.warn("room", () => full);
    expect((await get("/readyz")).text).not.toContain("warnings");
    full = "no room";
    expect(JSON.parse((await get("/readyz")).text)).toMatchObject({ ok: false, warnings: { "broker/room": "no room" } });
    expect((await broker.report("ready")).ok).toBe(true);
    expect((await get("/livez")).text).not.toContain("warnings");
    broker.markDraining();
    expect((await get("/readyz")).text).toContain('"broker/draining":"draining"');
    expect((await get("/metrics")).text).toContain("sluice_process_event_loop_delay_seconds");
    expect(JSON.parse((await get("/version")).text)).toEqual({ version: "1.2.3", services: ["broker", "store"] });
    expect((await get("/secret")).status).toBe(404);
    await server.stop();
  });

  test("a check that hangs is a check that fails", async () => {
    const clock = new ManualClock();
    const health = createHealth("proxy", clock);
    health.markStarted();
    health.ready("hung", () => new Promise(() => undefined));
    const report = health.report("ready");
    await clock.advanceAsync(1_000);
    expect(await report).toEqual({
      ok: false,
      checks: { "proxy/started": "ok", "proxy/draining": "ok", "proxy/hung": "no answer from the check" },
      warnings: {},
    });
  });
});

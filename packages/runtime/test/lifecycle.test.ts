import { describe, expect, test } from "@jest/globals";
import { EventEmitter } from "node:events";
import { type Component, defineConfig, Lifecycle, type ProcessHost, runService } from "../src/index.ts";
import { ManualClock, RecordingLogger } from "../src/testing/index.ts";

function recorded(name: string, seen: string[], overrides: Partial<Component> = {}): Component {
  return {
    name,
    start: () => void seen.push(`start ${name}`),
    drain: () => void seen.push(`drain ${name}`),
    stop: () => void seen.push(`stop ${name}`),
    ...overrides,
  };
}
function setUp() {
  const clock = new ManualClock();
  const logger = new RecordingLogger();
  return { clock, logger, lifecycle: new Lifecycle({ name: "test", logger, clock, drainMs: 1_000 }) };
}

describe("lifecycle", () => {
  test("starts in order, drains and stops in reverse, each once", async () => {
    const { lifecycle } = setUp();
    const seen: string[] = [];
    lifecycle.add(recorded("a", seen), recorded("b", seen));
    await Promise.all([lifecycle.start(), lifecycle.start()]);
    expect(lifecycle.state).toBe("running");
    await Promise.all([lifecycle.drain(), lifecycle.drain()]);
    expect([lifecycle.state, lifecycle.signal.aborted]).toEqual(["draining", true]);
    await Promise.all([lifecycle.stop(), lifecycle.stop()]);
    expect(seen).toEqual(["start a", "start b", "drain b", "drain a", "stop b", "stop a"]);
    expect(lifecycle.state).toBe("stopped");
    await expect(lifecycle.start()).rejects.toThrow("stopped");
  });

  test("a failed start stops what had started and says why", async () => {
    const { lifecycle } = setUp();
    const seen: string[] = [];
    const broken = recorded("b", seen, { start: () => Promise.reject(new Error("no port")) });
    lifecycle.add(recorded("a", seen), broken, recorded("c", seen));
    await expect(lifecycle.start()).rejects.toThrow("no port");
    expect(seen).toEqual(["start a", "stop a"]);
    await lifecycle.stop();
    expect(lifecycle.state).toBe("stopped");
  });

  test("a component that never drains costs the deadline, not more, and is stopped all the same", async () => {
    const { lifecycle, clock, logger } = setUp();
    const seen: string[] = [];
    lifecycle.add(recorded("a", seen), recorded("stuck", seen, { drain: () => new Promise(() => undefined) }));
    await lifecycle.start();
    const drained = lifecycle.drain();
    await clock.advanceAsync(999);
    expect(seen).toEqual(["start a", "start stuck"]);
    await clock.advanceAsync(1);
    await drained;
    expect(logger.find("drain cut short")?.fields["component"]).toBe("stuck");
    await lifecycle.stop();
    // The rest of the drain had no time left, but its turn all the same.
    expect(seen.slice(2)).toEqual(["drain a", "stop stuck", "stop a"]);
    expect(clock.pendingTimers).toBe(0);
  });

  test("a drain during the start gives the start up", async () => {
    const { lifecycle } = setUp();
    const seen: string[] = [];
    const inside = Promise.withResolvers<void>();
    const waiting = recorded("waiting", seen, {
      start(signal) {
        inside.resolve();
        return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error)));
      },
    });
    lifecycle.add(recorded("a", seen), waiting);
    const started = expect(lifecycle.start()).rejects.toThrow("asked to stop while it started");
    await inside.promise;
    await lifecycle.drain();
    await started;
    await lifecycle.stop();
    expect([seen, lifecycle.state]).toEqual([["start a", "stop a"], "stopped"]);
  });

  test("stop cuts a running drain short", async () => {
    const { lifecycle, clock } = setUp();
    lifecycle.add(recorded("stuck", [], { drain: () => new Promise(() => undefined) }));
    await lifecycle.start();
    void lifecycle.drain();
    await lifecycle.stop();
    expect([lifecycle.state, clock.pendingTimers]).toEqual(["stopped", 0]);
  });
});

class FakeProcess extends EventEmitter implements ProcessHost {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly pid = 1;
  readonly exited = Promise.withResolvers<number>();
  constructor(argv: readonly string[], env: Record<string, string> = {}) {
    super();
    this.argv = ["node", "main.ts", "--log.level", "silent", ...argv];
    this.env = env;
  }
  exit(code: number): void {
    this.exited.resolve(code);
  }
}
const noConfig = defineConfig({});

describe("runService", () => {
  test("serves until SIGTERM, then drains, stops and exits 0", async () => {
    const host = new FakeProcess([]);
    const seen: string[] = [];
    const { clock, logger } = setUp();
    const run = runService(
      "test",
      noConfig,
      () =>
        new Lifecycle({ name: "test", logger, clock }).add(
          recorded("a", seen, { start: () => void setImmediate(() => host.emit("SIGTERM", "SIGTERM")) }),
        ),
      { host },
    );
    await run;
    expect(await host.exited.promise).toBe(0);
    expect(seen).toEqual(["drain a", "stop a"]);
    expect(host.eventNames()).toEqual([]);
  });

  test("a second signal, a failed start, an uncaught error and bad configuration have their exit codes", async () => {
    const { clock, logger } = setUp();
    const service = (component: Component) => () => new Lifecycle({ name: "t", logger, clock }).add(component);
    const twice = new FakeProcess([]);
    const stuck = recorded("stuck", [], { drain: () => new Promise(() => undefined) });
    void runService("t", noConfig, service(stuck), { host: twice });
    setImmediate(() => {
      twice.emit("SIGINT", "SIGINT");
      twice.emit("SIGINT", "SIGINT");
    });
    expect(await twice.exited.promise).toBe(1);

    const broken = new FakeProcess([]);
    const failing = recorded("x", [], { start: () => Promise.reject(new Error("no")) });
    await runService("t", noConfig, service(failing), { host: broken });
    expect(await broken.exited.promise).toBe(1);

    const rejected = new FakeProcess([]);
    void runService("t", noConfig, service(recorded("x", [])), { host: rejected });
    setImmediate(() => rejected.emit("unhandledRejection", new Error("lost")));
    expect(await rejected.exited.promise).toBe(1);

    const bad = new FakeProcess([], { SLUICE_LOG_LEVEL: "silent", SLUICE_NO_SUCH: "1" });
    await runService("t", noConfig, service(recorded("x", [])), { host: bad });
    expect(await bad.exited.promise).toBe(2);
  });
});

import { describe, expect, test } from "@jest/globals";
import { defineConfig, loadConfig, mergeConfig, silentLogger, systemClock, systemRandom } from "@sluice/runtime";
import { openEnvironment, sharedConfig, tracingConfig } from "../src/index.ts";
import { failureDomain } from "../src/environment.ts";

const parts = { clock: systemClock, random: systemRandom, logger: silentLogger };
const definition = mergeConfig(mergeConfig(sharedConfig("broker"), tracingConfig), defineConfig({}));
async function open(...argv: string[]) {
  const opened = await openEnvironment("broker", loadConfig(definition, { argv }), parts);
  await opened.close();
  return opened;
}

describe("failure domain", () => {
  test("the zone, else the machine, else one for all", () => {
    expect(failureDomain("a", "node-1")).toBe("a");
    expect(failureDomain("", "node-1")).toBe("node-1");
    expect(failureDomain("", "")).toBe("default");
    expect(failureDomain("", undefined)).toBe("default");
    expect(failureDomain("", "n".repeat(253))).toHaveLength(64);
  });
  test("is the identity's zone", async () => {
    expect((await open("--zone=", "--host=node-7")).identity.zone).toBe("node-7");
    expect((await open()).identity.zone).toBe("default");
  });
});

describe("environment", () => {
  test("the drain's time is configuration, and only that", async () => {
    expect((await open("--drain.timeout=45s")).environment.timers.shutdownMs).toBe(45_000);
    expect((await open("--timers.scalePercent=50")).environment.timers.shutdownMs).toBe(5_000);
  });
  test.each([
    ["id", "--id=no/slash"],
    ["objectStore.url", "--objectStore.url=ftp://nowhere"],
    ["objectStore.url", "--objectStore.url=s3://bucket"],
    ["tracing.endpoint", "--tracing.endpoint=collector:4318"],
  ])("a value that only its user can judge is refused with its key: %s", async (key, flag) => {
    await expect(open(flag)).rejects.toMatchObject({ code: "INVALID_CONFIG", message: expect.stringMatching(`^${key}: `) });
  });
  test("a tracer when there is a collector to tell", async () => {
    expect((await open("--tracing.endpoint=http://127.0.0.1:1")).environment.tracer).toBeDefined();
    expect(Object.keys((await open()).environment)).not.toContain("tracer");
  });
});

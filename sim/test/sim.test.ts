import { readFileSync } from "node:fs";
import { describe, expect, test } from "@jest/globals";
import { run } from "../src/index.ts";

const kept = JSON.parse(readFileSync(new URL("../seeds.json", import.meta.url), "utf8")) as { seed: number; found: string }[];

describe("simulator", () => {
  test("the same seed twice gives the same events", () => {
    for (const seed of [3, 4]) {
      const first = run(seed, { short: true });
      const second = run(seed, { short: true });
      expect(second).toEqual(first);
      expect(first.events).toBeGreaterThan(50);
    }
    expect(run(5, { short: true }).hash).not.toBe(run(6, { short: true }).hash);
  });

  test("no rule is broken in a few short runs", () => {
    let acknowledged = 0;
    let reads = 0;
    for (let seed = 10_001; seed <= 10_040; seed++) {
      const result = run(seed, { short: true });
      expect({ seed, violations: result.violations }).toEqual({ seed, violations: [] });
      acknowledged += result.acknowledged;
      reads += result.reads;
    }
    // The runs do something.
    expect(acknowledged).toBeGreaterThan(1000);
    expect(reads).toBeGreaterThan(1000);
  });

  test("seeds that found a fault once pass", () => {
    for (const { seed } of kept) expect({ seed, violations: run(seed, { latest: false }).violations }).toEqual({ seed, violations: [] });
  });

  test("questions for the latest offset are answered, by full disks as well", () => {
    let latest = 0;
    let byRegister = 0;
    for (let seed = 1; seed <= 80; seed++) {
      const result = run(seed, { short: true });
      expect({ seed, violations: result.violations }).toEqual({ seed, violations: [] });
      latest += result.latest;
      byRegister += result.latestByRegister;
    }
    expect(latest).toBeGreaterThan(1000);
    expect(byRegister).toBeGreaterThan(20);
  });

  test.each(["M4", "M10", "M15", "M31"])("the planted fault %s is found", (mutant) => {
    let found = false;
    for (let seed = 1; seed <= 60 && !found; seed++) found = run(seed, { mutant }).violations.length > 0;
    expect(found).toBe(true);
  });
});

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, test } from "@jest/globals";

// In a process of its own: the collector's flag and its trace belong to a whole process.
const program = `
  import { noteBufferAllocated } from ${JSON.stringify(join(import.meta.dirname, "../src/buffer-gc.ts"))};
  const live = Array.from({ length: 200_000 }, (_, i) => ({ i, text: "x" + i }));
  const queue = [];
  for (let n = 0; n < 600; n += 1) {
    queue.push(Buffer.allocUnsafeSlow(1 << 20));
    if (queue.length > 8) queue.shift();
    if (process.argv[1] === "told") noteBufferAllocated(1 << 20);
    if (n % 4 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  if (live.length === 0) process.exit(1);
`;
const fullMarks = (mode: string): number => {
  const run = spawnSync(process.execPath, ["--trace-gc", "--input-type=module", "-e", program, mode], { encoding: "utf8" });
  expect(run.status).toBe(0);
  return run.stdout.split("\n").filter((line) => line.includes("Mark-Compact")).length;
};

describe("collection of young buffers", () => {
  test("slabs that are told of cost fewer marks of the whole heap", () => {
    expect(fullMarks("told")).toBeLessThan(fullMarks("untold"));
  }, 60_000);
});

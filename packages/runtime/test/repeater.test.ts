import { expect, test } from "@jest/globals";
import { Repeater } from "../src/index.ts";
import { ManualClock } from "../src/testing/index.ts";

const turns = async (): Promise<void> => {
  for (let i = 0; i < 5; i += 1) await Promise.resolve();
};

test("runs come one interval after the end of the one before, also after a failure, until it is stopped", async () => {
  const clock = new ManualClock();
  const runs: PromiseWithResolvers<void>[] = [];
  const errors: unknown[] = [];
  const repeater = new Repeater({
    clock,
    intervalMs: 100,
    work: () => {
      const run = Promise.withResolvers<void>();
      runs.push(run);
      return run.promise;
    },
    onError: (error) => errors.push(error),
  });
  repeater.start();
  await clock.advanceAsync(99);
  expect(runs).toHaveLength(0);
  await clock.advanceAsync(1);
  expect(runs).toHaveLength(1);
  // A slow run is waited for.
  await clock.advanceAsync(1_000);
  expect(runs).toHaveLength(1);
  runs[0]!.reject("failed");
  await turns();
  expect(errors).toEqual(["failed"]);
  await clock.advanceAsync(100);
  expect(runs).toHaveLength(2);
  repeater.stop();
  runs[1]!.resolve();
  await turns();
  await clock.advanceAsync(1_000);
  expect([runs.length, repeater.stopped]).toEqual([2, true]);
});

import { describe, expect, test } from "@jest/globals";
import type { PartitionKey } from "@sluice/core/model";
import { ManualClock } from "@sluice/runtime/testing";
import { TransitionQueue, transitionRanks } from "../src/transition-queue.ts";

const { existing, fresh, deleted } = transitionRanks;
const key = (name: string): PartitionKey => name as PartitionKey;

function setup(runningMax = 2, hasWork: (name: string) => boolean = () => true) {
  const clock = new ManualClock();
  const begun: string[] = [];
  const queue = new TransitionQueue({
    clock,
    runningMax,
    slotMs: 1_000,
    begin: (k) => {
      begun.push(k);
      return hasWork(k);
    },
  });
  return { clock, begun, queue };
}

describe("partitions that are taken or deleted", () => {
  test("so many at a time, in their order; each that ends makes room for the next", () => {
    const { begun, queue } = setup();
    for (const name of ["a", "b", "c", "d"]) queue.add(key(name), fresh);
    expect([begun, queue.waiting]).toEqual([["a", "b"], 2]);
    queue.ended(key("b"));
    expect(begun).toEqual(["a", "b", "c"]);
    // What does not run ends nothing.
    queue.ended(key("b"));
    queue.ended(key("d"));
    expect([begun, queue.waiting]).toEqual([["a", "b", "c"], 1]);
  });

  test("what holds records comes before what is new, and that before what is deleted", () => {
    const { begun, queue } = setup(1);
    queue.add(key("first"), deleted);
    queue.add(key("gone"), deleted);
    queue.add(key("new"), fresh);
    queue.add(key("old"), existing);
    // It was new, and is to be deleted.
    queue.add(key("changed"), fresh);
    queue.add(key("changed"), deleted);
    expect(queue.waiting).toBe(4);
    for (const name of ["first", "old", "new", "gone", "changed"]) queue.ended(key(name));
    expect(begun).toEqual(["first", "old", "new", "gone", "changed"]);
  });

  test("one that takes long no longer counts, and its end is no second one", () => {
    const { clock, begun, queue } = setup(1);
    queue.add(key("slow"), existing);
    queue.add(key("next"), existing);
    queue.add(key("last"), existing);
    clock.advance(999);
    expect(begun).toEqual(["slow"]);
    clock.advance(1);
    expect(begun).toEqual(["slow", "next"]);
    queue.ended(key("slow"));
    expect(begun).toEqual(["slow", "next"]);
  });

  test("one that has nothing to do takes no room; one that is added again while it runs takes no more", () => {
    const { begun, queue } = setup(1, (name) => name !== "idle");
    queue.add(key("idle"), fresh);
    queue.add(key("a"), fresh);
    queue.add(key("a"), fresh);
    queue.add(key("b"), fresh);
    expect(begun).toEqual(["idle", "a"]);
    queue.ended(key("a"));
    expect(begun).toEqual(["idle", "a", "a"]);
    queue.ended(key("a"));
    expect(begun).toEqual(["idle", "a", "a", "b"]);
  });

  test("one that fails as it begins keeps nobody else from beginning", () => {
    const { clock, begun, queue } = setup(1, (name) => {
      if (name === "broken") throw new Error("broken");
      return true;
    });
    expect(() => queue.add(key("broken"), fresh)).toThrow("broken");
    queue.add(key("a"), fresh);
    clock.advance(1_000);
    expect(begun).toEqual(["broken", "a"]);
  });

  test("after its end nothing begins", () => {
    const { clock, begun, queue } = setup(1);
    queue.add(key("a"), fresh);
    queue.add(key("b"), fresh);
    queue.close();
    clock.advance(5_000);
    expect([begun, queue.waiting]).toEqual([["a"], 0]);
  });
});

import { describe, expect, test } from "@jest/globals";
import { a, partition } from "./support/fakes.ts";
import { setup } from "./support/router.ts";

describe("produce router, a topic that is deleted", () => {
  function deletable() {
    const deleted = new Set<string>();
    const scene = setup(1_000, { gone: (topic) => deleted.has(topic) });
    return { ...scene, remove: () => void deleted.add(partition.topicId) };
  }

  test("ends what is held at once, also when a batch of it may have been stored, and what comes afterwards", () => {
    const { clock, links, first, produce, prove, outcomes, router, remove } = deletable();
    prove();
    produce("sent", { idempotent: true });
    first.die();
    links.up.delete(a);
    links.owner = undefined;
    produce("held");
    expect(outcomes).toEqual([]);
    remove();
    router.routeChanged(partition);
    produce("late");
    expect(outcomes).toEqual([
      ["sent", "UNKNOWN_TOPIC"],
      ["held", "UNKNOWN_TOPIC"],
      ["late", "UNKNOWN_TOPIC"],
    ]);
    expect(router.heldBytes).toBe(0);
    clock.advance(50);
    expect(clock.pendingTimers).toBe(0);
  });

  test("is noticed without being told of it", () => {
    const { clock, links, produce, outcomes, remove } = deletable();
    links.owner = undefined;
    produce("held");
    remove();
    clock.advance(50);
    expect(outcomes).toEqual([["held", "UNKNOWN_TOPIC"]]);
  });

  test.each(["NOT_OWNER", "PARTITION_RECOVERING", "OUTCOME_UNKNOWN"] as const)(
    "what is on its way waits for its answer, and does not go again after %s",
    (code) => {
      const { clock, first, produce, prove, outcomes, router, remove } = deletable();
      prove();
      for (const name of ["1", "2", "3"]) produce(name, { idempotent: true });
      remove();
      router.routeChanged(partition);
      expect(outcomes).toEqual([]);
      first.ok(1);
      first.refuse(code);
      first.refuse(code);
      expect(outcomes).toEqual([
        ["1", 1],
        ["2", "UNKNOWN_TOPIC"],
        ["3", "UNKNOWN_TOPIC"],
      ]);
      clock.advance(1_000);
      expect(first.waiting).toEqual([]);
    },
  );

  test("what waits behind one that is on its way does not wait for that one's answer", () => {
    const { first, produce, outcomes, router, remove } = deletable();
    produce("begun");
    produce("behind");
    expect(first.waiting).toEqual(["begun"]);
    remove();
    router.routeChanged(partition);
    expect(outcomes).toEqual([["behind", "UNKNOWN_TOPIC"]]);
    first.die();
    expect(outcomes.at(-1)).toEqual(["begun", "OUTCOME_UNKNOWN"]);
  });

  test("an answer for good is told as it is", () => {
    const { first, produce, prove, outcomes, remove } = deletable();
    prove();
    produce("1");
    remove();
    first.refuse("MESSAGE_TOO_LARGE");
    expect(outcomes).toEqual([["1", "MESSAGE_TOO_LARGE"]]);
  });
});

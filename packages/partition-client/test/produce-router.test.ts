import { describe, expect, test } from "@jest/globals";
import { decodeAnnotations } from "@sluice/core/log";
import type { ErrorCode } from "@sluice/core/model";
import { a, b, c, FakeLink, partition } from "./support/fakes.ts";
import { setup } from "./support/router.ts";

describe("produce router", () => {
  test("an owner that was not heard of gets one batch, then all of them, in order", () => {
    const { first, produce, outcomes, router } = setup();
    for (const name of ["1", "2", "3"]) produce(name);
    expect(first.waiting).toEqual(["1"]);
    first.ok(10);
    expect(first.waiting).toEqual(["2", "3"]);
    first.ok(11);
    first.ok(12);
    expect(outcomes).toEqual([
      ["1", 10],
      ["2", 11],
      ["3", 12],
    ]);
    expect(router.heldBytes).toBe(0);
  });

  test("the trace parent of a recorded call goes with each of its attempts, and with no other", () => {
    const { clock, first, produce, prove } = setup();
    const trace = new Uint8Array(26).fill(7);
    const traces = (): (number | undefined)[] => first.sent.map((s) => decodeAnnotations(s.message.annotations).traceParent?.[0]);
    prove();
    produce("1");
    produce("2", { trace });
    produce("3");
    expect(traces()).toEqual([undefined, 7, undefined]);
    for (let i = 0; i < 3; i += 1) first.refuse("PARTITION_RECOVERING");
    clock.advance(30);
    first.ok(1);
    expect(traces()).toEqual([7, undefined]);
  });

  test("NOT_OWNER in the middle: all that was refused goes to the new owner in the first order", () => {
    const { clock, links, first, produce, prove, outcomes, router } = setup();
    prove();
    for (const name of ["1", "2", "3"]) produce(name);
    first.ok(1);
    first.refuse("NOT_OWNER", b);
    produce("4");
    expect(first.waiting).toEqual(["3"]);
    const second = new FakeLink();
    links.up.set(b, second);
    links.owner = b;
    router.routeChanged(partition);
    // The answer to 3 is still out: nothing may overtake it.
    expect(second.waiting).toEqual([]);
    first.refuse("NOT_OWNER", b);
    clock.advance(20);
    expect(second.waiting).toEqual(["2"]);
    second.ok(2);
    expect(second.waiting).toEqual(["3", "4"]);
    second.ok(3);
    second.ok(4);
    expect(outcomes.map(([name]) => name)).toEqual(["1", "2", "3", "4"]);
  });

  test("the hint of a refusal is followed, and given up when the metadata changes", () => {
    const { clock, links, first, produce, prove, router } = setup();
    const second = new FakeLink();
    links.up.set(b, second);
    second.writable = false;
    prove();
    produce("1");
    first.refuse("NOT_OWNER", b);
    clock.advance(300);
    expect([first.waiting, second.waiting]).toEqual([[], []]);
    links.owner = a;
    router.routeChanged(partition);
    expect(first.waiting).toEqual(["1"]);
  });

  test("a hint that names a broker without a link is not waited for: nothing would ever take it back", () => {
    const { clock, first, produce, prove } = setup();
    prove();
    produce("1");
    // The metadata has said for a while that `a` is the owner; this answer was late, or its broker behind.
    first.refuse("NOT_OWNER", b);
    clock.advance(30);
    expect(first.waiting).toEqual(["1"]);
  });

  test("a hint is left when the link to the broker that it names dies", () => {
    const { clock, links, first, produce, prove } = setup();
    const second = new FakeLink();
    links.up.set(b, second);
    prove();
    produce("1", { idempotent: true });
    first.refuse("NOT_OWNER", b);
    clock.advance(20);
    expect(second.waiting).toEqual(["1"]);
    links.up.delete(b);
    second.die();
    clock.advance(50);
    expect(first.waiting).toEqual(["1"]);
  });

  test("two brokers that send a lane to each other do not keep it from the owner", () => {
    const { clock, links, first, produce, prove } = setup();
    const [second, third] = [new FakeLink(), new FakeLink()];
    links.up.set(b, second);
    prove();
    produce("1");
    first.refuse("NOT_OWNER", b);
    links.up.set(c, third);
    links.owner = c;
    clock.advance(20);
    second.refuse("NOT_OWNER", a);
    clock.advance(50);
    expect(third.waiting).toEqual(["1"]);
  });

  test("a link that dies: unknown for a plain batch, again for one with a sequence, and for what was not sent", () => {
    const { clock, links, first, produce, prove, outcomes } = setup();
    prove();
    produce("plain");
    produce("sequence", { idempotent: true });
    first.die();
    expect(outcomes).toEqual([["plain", "OUTCOME_UNKNOWN"]]);
    const again = new FakeLink();
    links.up.set(a, again);
    clock.advance(20);
    expect(again.waiting).toEqual(["sequence"]);
    again.die(false);
    const third = new FakeLink();
    links.up.set(a, third);
    clock.advance(40);
    expect(third.waiting).toEqual(["sequence"]);
    third.ok(5);
    expect(outcomes.at(-1)).toEqual(["sequence", 5]);
  });

  test.each(["OUT_OF_ORDER_SEQUENCE", "UNKNOWN_PRODUCER"] as const)("%s behind a batch that goes again is not the last word", (code) => {
    const { clock, first, produce, prove, outcomes } = setup();
    prove();
    produce("1", { idempotent: true });
    produce("2", { idempotent: true });
    first.refuse("OVERLOADED");
    first.refuse(code);
    expect(outcomes).toEqual([]);
    clock.advance(20);
    expect(first.waiting).toEqual(["1"]);
    first.ok(1);
    first.ok(2);
    expect(outcomes).toEqual([
      ["1", 1],
      ["2", 2],
    ]);
  });

  describe("an owner that has never heard of the producer", () => {
    const vouched = ({ sent }: FakeLink): boolean[] =>
      sent.map(({ message }) => decodeAnnotations(message.annotations).anySequence === true);
    const vouches = { idempotent: true, vouches: true };

    test("takes its batches when the caller vouches for them: the first goes by itself, those behind it are no longer unknown", () => {
      const { clock, first, produce, prove, outcomes } = setup();
      prove();
      for (const name of ["7", "8", "9"]) produce(name, vouches);
      for (let i = 0; i < 3; i += 1) first.refuse("UNKNOWN_PRODUCER");
      expect(outcomes).toEqual([]);
      clock.advance(20);
      expect([first.waiting, vouched(first)]).toEqual([["7"], [true]]);
      first.ok(7);
      expect([first.waiting, vouched(first)]).toEqual([
        ["8", "9"],
        [false, false],
      ]);
      first.ok(8);
      first.ok(9);
      expect(outcomes.map(([name]) => name)).toEqual(["7", "8", "9"]);
    });

    test("is told again after a failure: the one that was told may be gone before it stored the batch", () => {
      const { clock, links, first, produce, prove, outcomes } = setup();
      prove();
      produce("7", vouches);
      first.refuse("UNKNOWN_PRODUCER");
      clock.advance(20);
      expect(vouched(first)).toEqual([true]);
      first.die();
      const second = new FakeLink();
      links.up.set(a, second);
      clock.advance(40);
      expect([second.waiting, vouched(second)]).toEqual([["7"], [true]]);
      second.ok(7);
      expect(outcomes).toEqual([["7", 7]]);
    });

    test("refuses for good what nobody vouches for, and what it has been told of", () => {
      const { clock, first, produce, prove, outcomes } = setup();
      prove();
      produce("7", { idempotent: true, vouches: false });
      first.refuse("UNKNOWN_PRODUCER");
      produce("8", vouches);
      first.refuse("UNKNOWN_PRODUCER");
      clock.advance(20);
      first.refuse("UNKNOWN_PRODUCER");
      expect(outcomes).toEqual([
        ["7", "UNKNOWN_PRODUCER"],
        ["8", "UNKNOWN_PRODUCER"],
      ]);
    });

    test("is not told of a batch behind one that goes again: it might be taken when that one is refused", () => {
      const { clock, first, produce, prove, outcomes } = setup();
      prove();
      produce("0", vouches);
      produce("1", vouches);
      first.refuse("OVERLOADED");
      first.refuse("UNKNOWN_PRODUCER");
      clock.advance(20);
      expect([first.waiting, vouched(first)]).toEqual([["0"], [false]]);
      first.refuse("OVERLOADED");
      clock.advance(40);
      first.ok(0);
      expect([first.waiting, vouched(first)]).toEqual([["1"], [false]]);
      first.ok(1);
      expect(outcomes.map(([name]) => name)).toEqual(["0", "1"]);
    });
  });

  test("a sequence error by itself is told", () => {
    const { first, produce, prove, outcomes } = setup();
    prove();
    produce("1", { idempotent: true });
    first.refuse("OUT_OF_ORDER_SEQUENCE");
    expect(outcomes).toEqual([["1", "OUT_OF_ORDER_SEQUENCE"]]);
  });

  test("deadlines: TIMED_OUT when nothing can have been stored, OUTCOME_UNKNOWN when it may have been", () => {
    const { clock, links, first, produce, prove, outcomes, router } = setup();
    prove();
    produce("sent", { idempotent: true, deadlineMs: 500 });
    first.die();
    links.up.delete(a);
    produce("held", { deadlineMs: 500 });
    clock.advance(600);
    expect(outcomes).toEqual(
      expect.arrayContaining([
        ["sent", "OUTCOME_UNKNOWN"],
        ["held", "TIMED_OUT"],
      ]),
    );
    expect(router.heldBytes).toBe(0);
    expect(clock.pendingTimers).toBe(0);
  });

  test("full disks are waited for, and told when the time is over", () => {
    const { clock, first, produce, prove, outcomes } = setup();
    prove();
    produce("kept", { deadlineMs: 500 });
    produce("late", { deadlineMs: 500 });
    first.refuse("DISK_FULL");
    first.refuse("DISK_FULL");
    expect(outcomes).toEqual([]);
    clock.advance(50);
    first.ok(1);
    first.refuse("DISK_FULL");
    clock.advance(600);
    first.refuse("DISK_FULL");
    expect(Object.fromEntries(outcomes)).toEqual({ kept: 1, late: "DISK_FULL" });
  });

  test("a call that waits for the answers of others is told at its own deadline", () => {
    const { clock, first, produce, prove, outcomes } = setup();
    prove();
    produce("refused", { deadlineMs: 500 });
    produce("begun", { deadlineMs: 30_000 });
    first.refuse("DISK_FULL");
    produce("behind", { deadlineMs: 700 });
    clock.advance(1_000);
    expect(outcomes).toEqual([
      ["refused", "DISK_FULL"],
      ["behind", "DISK_FULL"],
    ]);
  });

  test("what no attempt has found out the metadata may know: a call that waited for room on the link is told why there was none", () => {
    let reason: ErrorCode | undefined = "DISK_FULL";
    const { clock, first, produce, prove, outcomes, causes } = setup(1_000, { unwritable: () => reason });
    prove();
    first.writable = false;
    produce("waited", { deadlineMs: 500 });
    clock.advance(600);
    reason = undefined;
    produce("as before", { deadlineMs: 500 });
    clock.advance(600);
    expect(Object.fromEntries(outcomes)).toEqual({ waited: "DISK_FULL", "as before": "TIMED_OUT" });
    expect(causes.get("as before")).toBe("LINK_DOWN");
  });

  test("what a call was held for is told when its time is over", () => {
    const { clock, links, first, produce, prove, outcomes, causes } = setup();
    prove();
    produce("starved", { idempotent: true, deadlineMs: 500 });
    produce("begun", { idempotent: true, deadlineMs: 500 });
    produce("plain", { deadlineMs: 500 });
    first.refuse("NOT_ENOUGH_REPLICAS");
    first.refuse("TIMED_OUT", "", "NOT_ENOUGH_REPLICAS");
    first.refuse("TIMED_OUT", "", "NOT_ENOUGH_REPLICAS");
    produce("behind", { deadlineMs: 500 });
    first.writable = false;
    clock.advance(600);
    expect(Object.fromEntries(outcomes)).toEqual({
      behind: "NOT_ENOUGH_REPLICAS",
      plain: "TIMED_OUT",
      starved: "NOT_ENOUGH_REPLICAS",
      begun: "OUTCOME_UNKNOWN",
    });
    expect([causes.get("starved"), causes.get("begun"), causes.get("plain")]).toEqual([
      undefined,
      "NOT_ENOUGH_REPLICAS",
      "NOT_ENOUGH_REPLICAS",
    ]);
    first.writable = true;
    prove();
    links.up.delete(a);
    produce("nobody", { deadlineMs: 500 });
    links.owner = undefined;
    clock.advance(600);
    expect([outcomes.at(-1), causes.get("nobody")]).toEqual([["nobody", "TIMED_OUT"], "PARTITION_RECOVERING"]);
  });

  test("bytes are bounded: the next one is refused at once, one alone may be larger", () => {
    const { links, produce, outcomes, router } = setup(10);
    links.up.delete(a);
    produce("twelve bytes");
    produce("x");
    expect(outcomes).toEqual([["x", "OVERLOADED"]]);
    expect(router.heldBytes).toBe(12);
    router.close();
    expect(outcomes.at(-1)).toEqual(["twelve bytes", "SHUTTING_DOWN"]);
    expect(router.heldBytes).toBe(0);
    produce("late");
    expect(outcomes.at(-1)).toEqual(["late", "SHUTTING_DOWN"]);
  });

  test("a link without room keeps the order and goes on when it has some", () => {
    const { first, produce, prove, router } = setup();
    prove();
    first.writable = false;
    produce("1");
    produce("2");
    expect(first.waiting).toEqual([]);
    first.writable = true;
    router.linksChanged();
    expect(first.waiting).toEqual(["1", "2"]);
  });
});

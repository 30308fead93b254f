import { describe, expect, test } from "@jest/globals";
import { memberId, partitionKey, topicId, type MemberId } from "@sluice/core/model";
import {
  placePartitions,
  type PlacementBroker,
  type PlacementInput,
  type PlacementMove,
  type PlacementPartition,
} from "@sluice/core/placement";
import * as fc from "fast-check";

const broker = (id: string, state: PlacementBroker["state"] = "OPEN", load = 0, zone = "a"): PlacementBroker => ({
  id: memberId(id),
  zone,
  state,
  appendBytesPerSecond: load,
});
const partition = (topic: string, n: number, assigned?: string, moving = false): PlacementPartition => ({
  id: { topicId: topicId(topic), partition: n },
  assigned: assigned === undefined ? undefined : memberId(assigned),
  moving,
});
const place = (input: Partial<PlacementInput>): PlacementMove[] =>
  placePartitions({ brokers: [], partitions: [], plannedMovesMax: 1_000, balance: true, ...input });
/** Where everything is after the moves. */
function after(input: PlacementInput, moves: readonly PlacementMove[]): Map<string, MemberId | undefined> {
  const at = new Map(input.partitions.map((p) => [partitionKey(p.id) as string, p.assigned]));
  for (const m of moves) at.set(partitionKey(m.partition), m.to);
  return at;
}
const countOf = (at: ReadonlyMap<string, MemberId | undefined>, id: MemberId): number => [...at.values()].filter((b) => b === id).length;

const brokers = fc.uniqueArray(
  fc.record({
    id: fc.constantFrom("b1", "b2", "b3", "b4", "b5", "b6").map(memberId),
    zone: fc.constantFrom("a", "b", "c"),
    state: fc.constantFrom("OPEN", "OPEN", "OPEN", "SUSPECT", "DRAINING") as fc.Arbitrary<PlacementBroker["state"]>,
    appendBytesPerSecond: fc.nat(1000),
  }),
  { selector: (b) => b.id, maxLength: 6 },
);
const partitions = fc.uniqueArray(
  fc.record({
    id: fc.record({ topicId: fc.constantFrom("t1", "t2", "t3").map(topicId), partition: fc.nat(30) }),
    // b7 and b8 never live.
    assigned: fc.constantFrom(undefined, "b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8").map((b) => (b === undefined ? b : memberId(b))),
    moving: fc.boolean(),
  }),
  { selector: (p) => partitionKey(p.id), maxLength: 60 },
);
const inputs: fc.Arbitrary<PlacementInput> = fc.record({ brokers, partitions, plannedMovesMax: fc.nat(40), balance: fc.boolean() });

describe("placement of partitions", () => {
  test("never moves to a broker that is dead, draining, or suspect while another is open; places every homeless partition", () => {
    fc.assert(
      fc.property(inputs, (input) => {
        const moves = placePartitions(input);
        const open = new Set(input.brokers.filter((b) => b.state === "OPEN").map((b) => b.id));
        const targets = open.size > 0 ? open : new Set(input.brokers.filter((b) => b.state === "SUSPECT").map((b) => b.id));
        for (const m of moves) expect(targets.has(m.to)).toBe(true);
        if (targets.size === 0) return;
        const alive = new Set(input.brokers.map((b) => b.id));
        for (const b of after(input, moves).values()) expect(b !== undefined && alive.has(b)).toBe(true);
      }),
    );
  });
  test("plans at most the bound, those under way included, and never a partition that is on its way", () => {
    fc.assert(
      fc.property(inputs, (input) => {
        const planned = placePartitions(input).filter((m) => m.cause === "DRAIN" || m.cause === "BALANCE");
        const alive = new Set(input.brokers.map((b) => b.id));
        const underWay = input.partitions.filter((p) => p.moving && p.assigned !== undefined && alive.has(p.assigned));
        expect(planned.length).toBeLessThanOrEqual(Math.max(0, input.plannedMovesMax - underWay.length));
        const keys = new Set(underWay.map((p) => partitionKey(p.id)));
        for (const m of planned) expect(keys.has(partitionKey(m.partition))).toBe(false);
        if (!input.balance) expect(planned.every((m) => m.cause === "DRAIN")).toBe(true);
      }),
    );
  });
  test("balances open brokers within one when nothing holds it back, and then wants nothing more", () => {
    fc.assert(
      fc.property(inputs, (given) => {
        const still = given.partitions.map((p) => ({ ...p, moving: false }));
        const input = { ...given, partitions: still, plannedMovesMax: 10_000, balance: true };
        let at = after(input, placePartitions(input));
        const settle = (): PlacementInput => ({ ...input, partitions: still.map((p) => ({ ...p, assigned: at.get(partitionKey(p.id)) })) });
        // What was just placed is not moved in the same round: the second round ends it.
        at = after(settle(), placePartitions(settle()));
        expect(placePartitions(settle())).toEqual([]);
        const open = input.brokers.filter((b) => b.state === "OPEN");
        const counts = open.map((b) => countOf(at, b.id));
        if (counts.length > 0) expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
        if (open.length > 0) for (const b of input.brokers) if (b.state === "DRAINING") expect(countOf(at, b.id)).toBe(0);
      }),
    );
  });
  test("moves no more than balance needs when a broker joins", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 0, max: 60 }), (n, count) => {
        const old = Array.from({ length: n }, (_, i) => broker(`b${i}`));
        const held = Array.from({ length: count }, (_, i) => partition("t", i, `b${i % n}`));
        expect(place({ brokers: old, partitions: held })).toEqual([]);
        const moves = place({ brokers: [...old, broker("new")], partitions: held });
        expect(moves.length).toBeLessThanOrEqual(Math.floor(count / (n + 1)));
        for (const m of moves) expect(m.to).toBe("new");
      }),
    );
  });
  test("moves exactly what a dead broker held", () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 6 }), fc.integer({ min: 0, max: 60 }), (n, count) => {
        const alive = Array.from({ length: n - 1 }, (_, i) => broker(`b${i}`));
        const held = Array.from({ length: count }, (_, i) => partition("t", i, `b${i % n}`));
        const moves = place({ brokers: alive, partitions: held, balance: false });
        expect(moves.map((m) => m.from)).toEqual(held.filter((p) => p.assigned === `b${n - 1}`).map(() => `b${n - 1}`));
        expect(moves.every((m) => m.cause === "LOST")).toBe(true);
      }),
    );
  });
  test("does not depend on the order of its lists", () => {
    fc.assert(
      fc.property(inputs, (input) => {
        const turned = { ...input, brokers: input.brokers.toReversed(), partitions: input.partitions.toReversed() };
        expect(placePartitions(turned)).toEqual(placePartitions(input));
      }),
    );
  });
  test("spreads a new topic over zones first, and over brokers", () => {
    const all = [broker("a1", "OPEN", 0, "a"), broker("a2", "OPEN", 0, "a"), broker("b1", "OPEN", 0, "b"), broker("c1", "OPEN", 0, "c")];
    const zoneOf = new Map(all.map((b) => [b.id, b.zone]));
    const moves = place({ brokers: all, partitions: [partition("t", 0), partition("t", 1), partition("t", 2)] });
    expect(new Set(moves.map((m) => zoneOf.get(m.to))).size).toBe(3);
  });
  test("prefers the less loaded of two equally full brokers", () => {
    const moves = place({ brokers: [broker("hot", "OPEN", 9_000), broker("cold", "OPEN", 10)], partitions: [partition("t", 1)] });
    expect(moves).toEqual([{ partition: { topicId: "t", partition: 1 }, from: undefined, to: "cold", cause: "FIRST" }]);
  });
  test("levels the topic that is spread worst", () => {
    const held = [partition("even", 0, "b1"), partition("even", 1, "b2"), partition("skew", 0, "b1"), partition("skew", 1, "b1")];
    const moves = place({ brokers: [broker("b1"), broker("b2")], partitions: held });
    expect(moves.map((m) => [m.partition.topicId, m.to])).toEqual([["skew", "b2"]]);
  });
});

import { describe, expect, test } from "@jest/globals";
import { incarnation, memberId } from "../../src/model/index.ts";
import { chooseReplicas, copysets } from "../../src/placement/replicas.ts";
import type { ReplicaCandidate } from "../../src/placement/replicas.ts";

const node = (name: string, zone: string, freeBytes = 100): ReplicaCandidate => ({
  node: memberId(name),
  incarnation: incarnation(`${name}-1`),
  zone,
  freeBytes,
});
const draws = (seed: number): (() => number) => {
  let x = seed;
  return () => (x = (x * 16_807) % 2_147_483_647) / 2_147_483_647;
};
const many = (count: number, zones: number): ReplicaCandidate[] =>
  Array.from({ length: count }, (_, i) => node(`store-${i}`, `zone-${i % zones}`));

describe("choice of replicas", () => {
  test("zones without a copy come first", () => {
    const nodes = [node("a", "x"), node("b", "x"), node("c", "y"), node("d", "z")];
    for (let seed = 1; seed < 200; seed++) {
      const zones = chooseReplicas(nodes, { count: 3, random: draws(seed) }).map((n) => n.zone);
      expect(new Set(zones).size).toBe(3);
    }
  });
  test("a replacement goes to the zone that is missing", () => {
    const [a, b, c, d] = [node("a", "x"), node("b", "y"), node("c", "x"), node("d", "z")];
    expect(chooseReplicas([a, b, c, d], { count: 1, have: [a, b], random: draws(5) })).toEqual([d]);
  });
  test("never one node twice, and fewer when there are not enough", () => {
    expect(chooseReplicas(many(2, 1), { count: 3, random: draws(7) })).toHaveLength(2);
    expect(chooseReplicas([], { count: 3, random: draws(7) })).toEqual([]);
  });
  test("free space weighs", () => {
    const nodes = [node("full", "x", 1), node("empty", "x", 9)];
    let empty = 0;
    for (let seed = 1; seed <= 1000; seed++)
      if (chooseReplicas(nodes, { count: 1, random: draws(seed * 7919) })[0]?.node === "empty") empty++;
    expect(empty).toBeGreaterThan(800);
    expect(empty).toBeLessThan(980);
  });
  test("above nine nodes few triples are used, all nodes take part, and triples span zones", () => {
    const nodes = many(12, 3);
    const used = new Set<string>();
    for (let seed = 1; seed < 2000; seed++)
      used.add(
        chooseReplicas(nodes, { count: 3, random: draws(seed * 104_729) })
          .map((n) => n.node)
          .sort()
          .join(" "),
      );
    expect(used.size).toBeLessThanOrEqual(copysets(nodes).length);
    expect(used.size).toBeLessThanOrEqual(8);
    expect(new Set([...used].flatMap((s) => s.split(" "))).size).toBe(12);
    for (const set of copysets(nodes)) expect(new Set(set.map((n) => n.zone)).size).toBe(3);
  });
  test("a cluster size that is no multiple of three leaves nobody out", () => {
    for (const count of [10, 11, 13]) {
      const covered = new Set(
        copysets(many(count, 2))
          .flat()
          .map((n) => n.node),
      );
      expect(covered.size).toBe(count);
      for (const set of copysets(many(count, 2))) expect(new Set(set.map((n) => n.node)).size).toBe(3);
    }
  });
});

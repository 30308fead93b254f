import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import {
  consumerGroupState,
  createShardState,
  decodeGroupRecord,
  decodeShardSnapshot,
  encodeShardSnapshot,
  groupKey,
  replay,
  type Assignment,
  type ShardState,
} from "../../src/group/index.ts";
import { crc32c } from "../log/support.ts";
import { CLASSIC, ClassicClient, GroupModel, SERVED, ServedClient, tenant } from "./group-model.ts";

const CLIENTS = 4;
const RUNS = 100;
const step = fc.record({
  what: fc.constantFrom(
    "beat",
    "beat",
    "beat",
    "lost",
    "leave",
    "come",
    "expel",
    "crash",
    "topic",
    "commit",
    "store",
    "store",
    "pass",
    "takeover",
  ),
  who: fc.nat(CLIENTS - 1),
  n: fc.nat(9_000),
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;
const places = (a: Assignment): string[] => a.flatMap(({ topicId, partitions }) => partitions.map((p) => `${topicId}/${p}`));

/** What the state says, in an order of its own. */
function shown(state: ShardState): unknown {
  const sorted = <T>(m: ReadonlyMap<string, T>): [string, T][] => [...m].sort(([a], [b]) => (a < b ? -1 : 1));
  return sorted(state.groups).map(([key, { offsets, members }]) => [
    key,
    sorted(offsets),
    members?.kind === "consumer" ? { ...members, members: sorted(members.members), owners: sorted(members.owners) } : members,
  ]);
}
/** The log gives the state, and so does a snapshot of it. */
function expectReplayed(model: GroupModel): void {
  const again = createShardState();
  model.log.forEach(({ key, value }, at) => replay(again, at, decodeGroupRecord(key, value)));
  expect(shown(again)).toEqual(shown(model.state));
  expect([again.offsetCount, again.bytes]).toEqual([model.state.offsetCount, model.state.bytes]);
  expect(shown(decodeShardSnapshot(encodeShardSnapshot(model.state, 1, crc32c), 1, crc32c))).toEqual(shown(model.state));
}
function expectCommitted({ state, committed }: GroupModel): void {
  const found = new Map<string, number>();
  for (const group of [SERVED, CLASSIC])
    for (const [place, { value }] of state.groups.get(groupKey(tenant, group))?.offsets ?? []) found.set(`${group} ${place}`, value.offset);
  expect(found).toEqual(committed);
}

describe("a group that the server assigns, whatever its clients do", () => {
  function expectNoPlaceTwice(model: GroupModel): void {
    const group = model.state.groups.get(groupKey(tenant, SERVED))?.members;
    const held =
      group?.kind === "consumer" ? [...group.members].flatMap(([id, m]) => places([...m.assigned, ...m.revoking]).map((p) => [p, id])) : [];
    expect(new Set(held.map(([place]) => place)).size).toBe(held.length);
    const live = model.served.filter((client) => model.isMember(client));
    const read = live.flatMap(({ owned }) => places(owned));
    expect(new Set(read).size).toBe(read.length);
    // Nobody reads what the coordinator could give to somebody else.
    for (const client of live) for (const place of places(client.owned)) expect(held).toContainEqual([place, client.id]);
  }
  function take(model: GroupModel, { what, who, n }: Step): void {
    const client = model.served[who] as ServedClient;
    if (what === "beat") model.beat(client);
    else if (what === "lost") model.beat(client, true);
    else if (what === "leave") model.leaveServed(client);
    else if (what === "expel") model.expel(client);
    else if (what === "come" && client.isGone) model.served[who] = new ServedClient(`${client.id}+`, client.instanceId, client.topics);
    else if (what === "crash") {
      // Its process is gone with what it knew; another starts under a name of its own, a static one under the old.
      client.isGone = true;
      model.expel(client);
    } else if (what === "topic") model.topics.set("t", Math.max(model.topics.get("t") ?? 0, n % 9));
    else if (what === "commit") model.commit(SERVED, n % 5, n);
    else if (what === "pass") model.pass(n);
    else if (what === "takeover") model.takeOver();
  }

  test("no partition has two readers, commits are kept, the log is the state, and it comes to rest", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const model = new GroupModel();
        for (let i = 0; i < CLIENTS; i += 1)
          model.served.push(new ServedClient(`c${i}`, i === 0 ? "static" : "", i === 3 ? ["t", "u"] : ["t"]));
        for (const one of steps) {
          take(model, one);
          expectNoPlaceTwice(model);
        }
        expectCommitted(model);
        expectReplayed(model);
        // Everybody who is there says so a few times.
        for (let round = 0; round < 12; round += 1) {
          for (const client of model.served) model.beat(client);
          expectNoPlaceTwice(model);
        }
        const group = model.state.groups.get(groupKey(tenant, SERVED))?.members;
        const live = model.served.filter(({ isGone }) => !isGone);
        if (live.length === 0) return;
        if (group?.kind !== "consumer") throw new Error("no group");
        // A static member that left keeps its place: what it held waits for it.
        const isWaiting = [...group.members.values()].some((m) => m.memberEpoch < 0);
        if (!isWaiting) expect(consumerGroupState(group)).toBe("Stable");
        const all = Array.from({ length: model.topics.get("t") ?? 0 }, (_, p) => `t/${p}`);
        if (!isWaiting) expect(live.flatMap(({ owned }) => places(owned)).sort()).toEqual(all.sort());
        expectReplayed(model);
      }),
      { numRuns: RUNS },
    );
  });
});

describe("a classic group, whatever its clients do", () => {
  /** Everybody who has an assignment of a generation has its part of the one that the leader of that generation sent. */
  function expectOnePlan(model: GroupModel): void {
    for (const { id, generation, assignment } of model.classic)
      if (assignment !== undefined && generation >= 0 && assignment !== "") expect(assignment).toBe(model.plans.get(generation)?.get(id));
  }
  function take(model: GroupModel, { what, who, n }: Step): void {
    const client = model.classic[who] as ClassicClient;
    if (what === "beat" || what === "lost") model.beatClassic(client);
    else if (what === "leave") model.leaveClassic(client);
    else if (what === "come" && client.isGone) model.classic[who] = new ClassicClient(`${client.name}+`);
    else if (what === "crash" || what === "expel") client.isGone = true;
    else if (what === "topic") model.joinClassic(client);
    else if (what === "commit") model.commit(CLASSIC, n % 5, n);
    else if (what === "store") model.store();
    else if (what === "pass") model.pass(n);
    else if (what === "takeover") model.takeOver();
  }

  test("a generation has one assignment, commits are kept, the log is the state, and it comes to rest", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const model = new GroupModel();
        for (let i = 0; i < CLIENTS; i += 1) model.classic.push(new ClassicClient(`c${i}`));
        for (const one of steps) {
          take(model, one);
          expectOnePlan(model);
        }
        expectCommitted(model);
        expectReplayed(model);
        // Everybody who is there goes on as clients do; those that are gone are found out by their sessions.
        for (let round = 0; round < 60; round += 1) {
          for (const client of model.classic) model.beatClassic(client);
          model.store();
          expectOnePlan(model);
          model.pass(1_000);
        }
        const live = model.classic.filter(({ isGone }) => !isGone);
        const group = model.classics.groups.get(groupKey(tenant, CLASSIC));
        model.store();
        if (live.length === 0) {
          expect([undefined, "empty"]).toContain(group?.phase);
          return;
        }
        expect([group?.phase, group?.members.size]).toEqual(["stable", live.length]);
        for (const { generation, assignment } of live)
          expect([generation, assignment?.split(":")[0]]).toEqual([group?.generation, String(group?.generation)]);
        expect(new Set(live.map(({ assignment }) => assignment)).size).toBe(live.length);
        expectReplayed(model);
      }),
      { numRuns: RUNS },
    );
  });
});

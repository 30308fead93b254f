import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import {
  assign,
  consumerGroupState,
  createShardState,
  decideExpel,
  decideHeartbeat,
  partitionCount,
  replay,
  sameAssignment,
  type AssignedMember,
  type Assignment,
  type ConsumerGroup,
  type GroupConfig,
  type ShardState,
} from "../../src/group/index.ts";

const config: GroupConfig = {
  sessionTimeoutMinMs: 1,
  sessionTimeoutMaxMs: 1,
  initialRebalanceDelayMs: 0,
  membersMax: 1_000,
  consumerSessionTimeoutMs: 1,
  consumerHeartbeatIntervalMs: 1_000,
  offsetsRetentionMs: 1,
};
const name = { tenant: "t", group: "g" };

/** A member as a client sees itself. */
interface Client {
  readonly id: string;
  epoch: number;
  /** What it reads. */
  reads: Assignment;
  topics: readonly string[];
}
/** A group with clients that call in any order, whose answers may get lost, and that may stop at any time. */
class World {
  readonly state: ShardState = createShardState();
  readonly topics = new Map<string, number>([
    ["a", 3],
    ["b", 5],
  ]);
  readonly clients = new Map<string, Client>();

  get group(): ConsumerGroup | undefined {
    const members = this.state.groups.get("t/g")?.members;
    return members?.kind === "consumer" ? members : undefined;
  }
  call(id: string, how: { readonly lost?: boolean; readonly leaves?: boolean; readonly topics?: readonly string[] } = {}): void {
    const known = this.clients.get(id);
    const client: Client = known ?? { id, epoch: 0, reads: [], topics: ["a", "b"] };
    if (how.topics !== undefined) client.topics = how.topics;
    const leaves = how.leaves === true && client.epoch > 0;
    const { records, reply } = decideHeartbeat(
      this.state,
      {
        ...name,
        memberId: id,
        memberEpoch: leaves ? -1 : client.epoch,
        instanceId: "",
        rackId: "",
        clientId: "",
        clientHost: "",
        rebalanceTimeoutMs: undefined,
        subscription: { topics: client.topics, pattern: "" },
        assignor: "",
        owned: client.epoch === 0 ? [] : client.reads,
      },
      {
        config,
        topics: {
          topic: (_, topic) => {
            const partitions = this.topics.get(topic);
            return partitions === undefined ? undefined : { topicId: topic, partitions };
          },
          matching: () => [],
        },
        nowMs: 1,
        hasClassicMembers: false,
        topicsAreKnown: false,
      },
    );
    for (const record of records) replay(this.state, this.state.nextOffset, record);
    if (leaves) return void this.clients.delete(id);
    this.clients.set(id, client);
    if (how.lost === true) return;
    if (reply.code !== undefined) {
      client.epoch = 0;
      client.reads = [];
      return;
    }
    client.epoch = reply.memberEpoch;
    if (reply.assignment !== undefined) client.reads = reply.assignment;
  }
  expel(id: string): void {
    for (const record of decideExpel(this.state, name, [id], 1)) replay(this.state, this.state.nextOffset, record);
    // Its client finds out, or is dead.
    this.clients.delete(id);
  }
  /** Nobody reads what another reads, among those that the group has not given up. */
  check(): void {
    const readers = new Map<string, string>();
    for (const { id, reads } of this.clients.values()) {
      for (const { topicId, partitions } of reads) {
        for (const p of partitions) {
          const key = `${topicId}/${p}`;
          expect([key, readers.get(key)]).toEqual([key, undefined]);
          readers.set(key, id);
        }
      }
    }
  }
  settle(): number {
    for (let rounds = 1; rounds < 50; rounds++) {
      for (const id of this.clients.keys()) this.call(id);
      this.check();
      const stable = this.group === undefined || this.clients.size === 0 || consumerGroupState(this.group) === "Stable";
      const told = [...this.clients.values()].every((c) => sameAssignment(c.reads, this.group?.members.get(c.id)?.target ?? []));
      if (stable && told) return rounds;
    }
    throw new Error("the group does not settle");
  }
}

const ids = fc.constantFrom("m1", "m2", "m3", "m4", "m5");
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("call" as const), id: ids }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("lost" as const), id: ids }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("leave" as const), id: ids }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("expel" as const), id: ids }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("subscribe" as const), id: ids, topics: fc.subarray(["a", "b", "c"], { minLength: 1 }) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("topic" as const),
      id: fc.constantFrom("a", "b", "c"),
      partitions: fc.integer({ min: 1, max: 7 }),
    }),
  },
);

describe("a group that the server assigns", () => {
  test("never gives a partition to two, whatever is lost, and settles with everything read", () =>
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const world = new World();
        for (const s of steps) {
          if (s.kind === "call") world.call(s.id);
          else if (s.kind === "lost") world.call(s.id, { lost: true });
          else if (s.kind === "leave") world.call(s.id, { leaves: true });
          else if (s.kind === "expel") world.expel(s.id);
          else if (s.kind === "subscribe") world.call(s.id, { topics: s.topics });
          else world.topics.set(s.id, Math.max(s.partitions, world.topics.get(s.id) ?? 0));
          world.check();
        }
        world.settle();
        const read = new Set(
          [...world.clients.values()].flatMap((c) => c.reads.flatMap((t) => t.partitions.map((p) => `${t.topicId}/${p}`))),
        );
        const wanted = new Set([...world.clients.values()].flatMap((c) => c.topics));
        for (const [topic, n] of world.topics)
          for (let p = 0; p < n; p++) expect([topic, p, read.has(`${topic}/${p}`)]).toEqual([topic, p, wanted.has(topic)]);
      }),
      { numRuns: 300 },
    ));

  test("of a hundred over three hundred partitions settles in a few rounds, and again after ten are gone", () => {
    const world = new World();
    world.topics.clear();
    world.topics.set("a", 300);
    for (let i = 0; i < 100; i++) world.call(`m${i}`, { topics: ["a"] });
    expect(world.settle()).toBeLessThan(8);
    expect([...world.clients.values()].map((c) => partitionCount(c.reads))).toEqual(Array.from({ length: 100 }, () => 3));
    for (let i = 0; i < 10; i++) world.expel(`m${i * 7}`);
    const before = new Map([...world.clients.values()].map((c) => [c.id, c.reads]));
    expect(world.settle()).toBeLessThan(5);
    // Nobody lost anything: only what the dead had has moved.
    for (const c of world.clients.values())
      for (const { topicId, partitions } of before.get(c.id) ?? [])
        expect(partitions.every((p) => c.reads.some((t) => t.topicId === topicId && t.partitions.includes(p)))).toBe(true);
  });
});

const members = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 9 }).chain((all) =>
  fc.tuple(
    ...all.map((memberId) =>
      fc.record({
        memberId: fc.constant(memberId),
        instanceId: fc.constant(""),
        topicIds: fc.subarray(["a", "b", "c"]),
        target: fc.constant<Assignment>([]),
      }),
    ),
  ),
);
const topics = fc.record({ a: fc.nat(12), b: fc.nat(12), c: fc.nat(12) }).map((o) => new Map(Object.entries(o)));
describe("assignors", () => {
  test.each(["uniform", "range"] as const)("%s gives each partition to exactly one of those who read its topic", (assignor) =>
    fc.assert(
      fc.property(members, topics, (all: AssignedMember[], partitions) => {
        const found = assign(assignor, all, partitions);
        const given = new Map<string, number>();
        for (const m of all) {
          for (const t of found.get(m.memberId) ?? []) {
            expect(m.topicIds).toContain(t.topicId);
            for (const p of t.partitions) given.set(`${t.topicId}/${p}`, (given.get(`${t.topicId}/${p}`) ?? 0) + 1);
          }
        }
        for (const [topic, n] of partitions)
          for (let p = 0; p < n; p++) expect(given.get(`${topic}/${p}`) ?? 0).toBe(all.some((m) => m.topicIds.includes(topic)) ? 1 : 0);
        expect([...given.values()].every((n) => n === 1)).toBe(true);
      }),
    ),
  );
  test("uniform is even when all read the same, and moves as little as that takes", () =>
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 0, max: 40 }), (count, n) => {
        const partitions = new Map([["a", n]]);
        const make = (k: number, targets?: ReadonlyMap<string, Assignment>): AssignedMember[] =>
          Array.from({ length: k }, (_, i) => ({
            memberId: `m${i}`,
            instanceId: "",
            topicIds: ["a"],
            target: targets?.get(`m${i}`) ?? [],
          }));
        const first = assign("uniform", make(count), partitions);
        const loads = [...first.values()].map(partitionCount);
        expect(Math.max(...loads) - Math.min(...loads)).toBeLessThanOrEqual(1);
        const second = assign("uniform", make(count + 1, first), partitions);
        const moved = partitionCount(second.get(`m${count}`) ?? []);
        expect(moved).toBe(Math.floor(n / (count + 1)));
      }),
    ));
});

import { describe, expect, test } from "@jest/globals";
import {
  assign,
  createClassics,
  createShardState,
  decideDeleteOffsets,
  decideHeartbeat,
  encodedBytes,
  encodeGroupRecord,
  groupRemovalOffsetsMax,
  isNewest,
  join,
  partitionCount,
  replay,
  stored,
  storeRefused,
  sync,
  type Assignment,
  type ClassicEffect,
  type Classics,
  type ClassicStep,
  type ConsumerMember,
  type GroupConfig,
  type JoinRequest,
} from "../../src/group/index.ts";
import { limits } from "../../src/model/index.ts";

const config: GroupConfig = {
  sessionTimeoutMinMs: 1,
  sessionTimeoutMaxMs: 60_000,
  initialRebalanceDelayMs: 0,
  membersMax: 1_000,
  consumerSessionTimeoutMs: 1,
  consumerHeartbeatIntervalMs: 1_000,
  offsetsRetentionMs: 1,
};
const key = { tenant: "t", group: "g" };

/** One classic group: effects in order, nothing is stored unless the test says so. */
class World {
  readonly state = createShardState();
  readonly all: Classics = createClassics(config);
  effects: ClassicEffect[] = [];
  #ticket = 0;

  step<T>(run: (step: ClassicStep) => T): T {
    this.effects = [];
    return run({ all: this.all, now: { monotonicMs: 1, wallMs: 1 }, effects: this.effects });
  }
  join(more: Partial<JoinRequest> & { readonly newMemberId: string }, metadataBytes = 10): void {
    const r: JoinRequest = {
      ...key,
      memberId: "",
      instanceId: "",
      clientId: "c",
      clientHost: "h",
      sessionTimeoutMs: 10_000,
      rebalanceTimeoutMs: 10_000,
      protocolType: "consumer",
      protocols: [{ name: "range", metadata: new Uint8Array(metadataBytes) }],
      requireKnownMemberId: false,
      supportsSkipAssignment: true,
      ...more,
    };
    this.step((step) => join(step, this.state, r, ++this.#ticket));
  }
  sync(memberId: string, assignmentBytes: number): void {
    const assignments = new Map([[memberId, new Uint8Array(assignmentBytes)]]);
    const r = { ...key, memberId, instanceId: "a", generation: 1, protocolType: undefined, protocol: undefined, assignments };
    this.step((step) => sync(step, r, ++this.#ticket));
  }
  get token(): number {
    const found = this.effects.find((e) => e.kind === "store");
    if (found === undefined) throw new Error("nothing is stored");
    return found.token;
  }
  get told(): unknown[] {
    return this.effects.map((e) => (e.kind === "store" ? "store" : (e.reply.code ?? "ok")));
  }
  /** A static member, alone and stable. */
  stable(assignmentBytes = 10): void {
    this.join({ instanceId: "a", newMemberId: "m1" });
    this.sync("m1", assignmentBytes);
    const { token } = this;
    this.step((step) => stored(step, "t/g", token));
    expect(this.told).toEqual(["ok"]);
  }
}

describe("a classic group", () => {
  test("of a shard that is full takes no new member; those that are there go on", () => {
    const world = new World();
    world.stable();
    world.state.bytes = limits.groupStateBytesPerShardMax;
    world.join({ newMemberId: "m2" });
    expect(world.told).toEqual(["GROUP_LIMIT"]);
    world.join({ group: "other", newMemberId: "m2" });
    expect(world.told).toEqual(["GROUP_LIMIT"]);
    expect([...world.all.groups.keys()]).toEqual(["t/g"]);
    world.join({ instanceId: "a", newMemberId: "m3" });
    expect(world.told).toEqual(["store"]);
  });

  test("refuses a static member that comes back with more than one record holds, and keeps its former self", () => {
    const world = new World();
    world.stable(limits.groupMembershipBytesMax - 10_000);
    world.join({ instanceId: "a", newMemberId: "m2" }, 20_000);
    expect(world.told).toEqual(["GROUP_LIMIT"]);
    expect([...(world.all.groups.get("t/g")?.members.keys() ?? [])]).toEqual(["m1"]);
    world.join({ instanceId: "a", newMemberId: "m2" }, 100);
    expect(world.told).toEqual(["store"]);
  });

  test("refuses a static member whose protocols do not fit beside those of the others", () => {
    const world = new World();
    world.stable();
    const each = limits.groupMemberBytesMax;
    for (let i = 0; i < 3; i++) world.join({ newMemberId: `big${i}` }, each);
    world.join({ instanceId: "a", newMemberId: "m2" }, each);
    expect(world.told).toEqual(["GROUP_LIMIT"]);
    expect([...(world.all.groups.get("t/g")?.members.keys() ?? [])]).toContain("m1");
  });

  test("tells who waits when a record cannot be stored", () => {
    const world = new World();
    world.join({ instanceId: "a", newMemberId: "m1" });
    world.sync("m1", 10);
    const first = world.token;
    expect(isNewest(world.all, "t/g", first)).toBe(true);
    world.step((step) => storeRefused(step, "t/g", first, { code: "MESSAGE_TOO_LARGE" }));
    expect(world.told).toEqual(["MESSAGE_TOO_LARGE"]);
    expect(world.all.groups.get("t/g")?.phase).toBe("preparing");

    const other = new World();
    other.stable();
    other.join({ instanceId: "a", newMemberId: "m2" });
    const second = other.token;
    other.step((step) => storeRefused(step, "t/g", second - 1, { code: "MESSAGE_TOO_LARGE" }));
    expect(other.told).toEqual([]);
    other.step((step) => storeRefused(step, "t/g", second, { code: "MESSAGE_TOO_LARGE" }));
    expect(other.told).toEqual(["MESSAGE_TOO_LARGE"]);
  });
});

describe("offsets to delete", () => {
  test("are taken as many at a time as one append holds, whatever the names", () => {
    const group = "g".repeat(limits.nameCharsMax);
    const names = { tenant: "t".repeat(limits.nameCharsMax), group };
    const topicId = "11111111-1111-4111-8111-111111111111";
    const state = createShardState();
    const all = Array.from({ length: groupRemovalOffsetsMax + 1 }, (_, partition) => ({ topic: "orders", topicId, partition }));
    const value = { offset: 1, leaderEpoch: -1, committedAtMs: 0, metadata: new Uint8Array(0) };
    all.forEach(({ partition }, i) => replay(state, i, { kind: "offset", key: { ...names, topicId, partition }, value }));
    const decided = (n: number) => decideDeleteOffsets(state, createClassics(config), names, all.slice(0, n), () => []);
    expect(decided(groupRemovalOffsetsMax + 1)).toMatchObject({ code: "INVALID_ARGUMENT", records: [] });
    const { records } = decided(groupRemovalOffsetsMax);
    expect(records).toHaveLength(groupRemovalOffsetsMax);
    expect(records.reduce((n, r) => n + encodedBytes(encodeGroupRecord(r)), 0)).toBeLessThanOrEqual(limits.groupRequestBytesMax);
  });
});

describe("a large group that the server assigns", () => {
  test("is evened out in no time when one member had everything", () => {
    const PARTITIONS = 10_000;
    const MEMBERS = 1_000;
    const everything: Assignment = [{ topicId: "a", partitions: Array.from({ length: PARTITIONS }, (_, p) => p) }];
    const members = Array.from({ length: MEMBERS }, (_, i) => ({
      memberId: `m${i}`,
      instanceId: "",
      topicIds: ["a"],
      target: i === 0 ? everything : [],
    }));
    // The best of three: a busy machine may stand still once.
    const times = Array.from({ length: 3 }, () => {
      const startedMs = performance.now();
      const found = assign("uniform", members, new Map([["a", PARTITIONS]]));
      const tookMs = performance.now() - startedMs;
      expect(new Set([...found.values()].map(partitionCount))).toEqual(new Set([PARTITIONS / MEMBERS]));
      return tookMs;
    });
    expect(Math.min(...times)).toBeLessThan(1_000);
  });

  test("does not go through its members for a heartbeat that changes nothing", () => {
    const state = createShardState();
    const topics = { topic: () => ({ topicId: "a", partitions: 10 }), matching: () => [] };
    const beat = (memberId: string, memberEpoch: number, topicsAreKnown: boolean) =>
      decideHeartbeat(
        state,
        {
          ...key,
          memberId,
          memberEpoch,
          instanceId: "",
          rackId: "",
          clientId: "",
          clientHost: "",
          rebalanceTimeoutMs: undefined,
          subscription: memberEpoch === 0 ? { topics: ["a"], pattern: "" } : undefined,
          assignor: "",
          owned: undefined,
        },
        { config, topics, nowMs: 1, hasClassicMembers: false, topicsAreKnown },
      );
    for (const record of beat("m1", 0, false).records) replay(state, state.nextOffset, record);
    const found = state.groups.get("t/g");
    if (found?.members?.kind !== "consumer") throw new Error("no group");
    let walks = 0;
    const watched = class extends Map<string, ConsumerMember> {
      override [Symbol.iterator](): MapIterator<[string, ConsumerMember]> {
        walks++;
        return super[Symbol.iterator]();
      }
    };
    const members = new watched();
    for (const [id, m] of found.members.members) members.set(id, m);
    found.members = { ...found.members, members };
    expect(beat("m1", 1, true).reply).toMatchObject({ code: undefined, memberEpoch: 1, heartbeatIntervalMs: 1_000 });
    expect(walks).toBe(0);
    expect(beat("m1", 1, false).reply).toMatchObject({ code: undefined, memberEpoch: 1 });
    expect(walks).toBeGreaterThan(0);
  });
});

import { describe, expect, test } from "@jest/globals";
import { crc32c } from "../log/support.ts";
import * as fc from "fast-check";
import {
  createShardState,
  decide,
  decodeGroupRecord,
  decodeShardSnapshot,
  encodeGroupRecord,
  encodeShardSnapshot,
  replay,
  sameRecord,
  shardOfGroup,
  shardOwner,
  toAssignment,
  type Assignment,
  type ClassicGroup,
  type ConsumerMember,
  type EncodedRecord,
  type GroupRecord,
  type ShardState,
} from "../../src/group/index.ts";
import { limits, partitionOfKey } from "../../src/model/index.ts";

const name = fc.stringMatching(/^[A-Za-z0-9._-]{1,20}$/);
const commitRequest = fc.record({
  kind: fc.constant("commit" as const),
  tenant: fc.constantFrom("default", "t2"),
  group: fc.constantFrom("a", "b", "c"),
  offsets: fc.array(
    fc.record({
      topicId: fc.constantFrom("t-1", "t-2"),
      partition: fc.integer({ min: -1, max: 5 }),
      offset: fc.integer({ min: -2, max: Number.MAX_SAFE_INTEGER }),
      leaderEpoch: fc.integer({ min: -1, max: 0x7fff_ffff }),
      metadata: fc.uint8Array({ maxLength: 40 }),
    }),
    { maxLength: 6 },
  ),
});
const removeRequest = fc.record({
  kind: fc.constant("remove" as const),
  tenant: fc.constantFrom("default", "t2"),
  group: fc.constantFrom("a", "b"),
  offsets: fc.array(fc.record({ topicId: fc.constantFrom("t-1", "t-2"), partition: fc.integer({ min: 0, max: 5 }) }), { maxLength: 4 }),
});
const text = fc.string({ maxLength: 40, unit: "grapheme" }).filter((t) => new TextEncoder().encode(t).length <= 255);
const bytes = fc.uint8Array({ maxLength: 300 });
const assignment: fc.Arbitrary<Assignment> = fc
  .dictionary(name, fc.array(fc.nat(9_999), { minLength: 1, maxLength: 5 }), { maxKeys: 3 })
  .map((topics) => toAssignment(new Map(Object.entries(topics))));
const classicGroup: fc.Arbitrary<ClassicGroup> = fc.record({
  kind: fc.constant("classic" as const),
  protocolType: text,
  generation: fc.nat(),
  protocol: text,
  leader: text,
  emptySinceMs: fc.integer({ min: -1 }),
  members: fc.array(
    fc.record({
      memberId: text,
      instanceId: text,
      clientId: text,
      clientHost: text,
      sessionTimeoutMs: fc.nat(),
      rebalanceTimeoutMs: fc.nat(),
      metadata: bytes,
      assignment: bytes,
    }),
    { maxLength: 4 },
  ),
});
const consumerGroup = fc.record({
  epoch: fc.nat(),
  targetEpoch: fc.nat(),
  assignor: text,
  topicsHash: fc.maxSafeNat(),
  emptySinceMs: fc.integer({ min: -1 }),
});
const consumerMember: fc.Arbitrary<ConsumerMember> = fc.record({
  instanceId: text,
  rackId: text,
  clientId: text,
  clientHost: text,
  rebalanceTimeoutMs: fc.nat(),
  topics: fc.array(name, { maxLength: 4 }),
  pattern: fc.string({ maxLength: 500 }),
  assignor: text,
  memberEpoch: fc.integer({ min: -2 }),
  previousEpoch: fc.integer({ min: -2 }),
  phase: fc.constantFrom("stable", "unrevoked", "unreleased"),
  assigned: assignment,
  revoking: assignment,
  target: assignment,
});
const groupName = fc.record({ tenant: name, group: text });
const orGone = <T>(value: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> => fc.option(value, { nil: undefined });
const membershipRecord: fc.Arbitrary<GroupRecord> = fc.oneof(
  fc.record({ kind: fc.constant("classic" as const), key: groupName, value: classicGroup }),
  fc.record({ kind: fc.constant("consumer" as const), key: groupName, value: consumerGroup }),
  fc.record({
    kind: fc.constant("member" as const),
    key: fc.record({ tenant: name, group: text, memberId: text }),
    value: orGone(consumerMember),
  }),
  fc.record({ kind: fc.constant("gone" as const), key: groupName }),
);
const anyRecord: fc.Arbitrary<GroupRecord> = fc.oneof(
  membershipRecord,
  fc.record({ kind: fc.constant("owner" as const), epoch: fc.integer({ min: 1, max: 0x7fff_ffff }), member: name, instance: name }),
  fc.record({
    kind: fc.constant("offset" as const),
    key: fc.record({ tenant: name, group: name, topicId: name, partition: fc.nat(9_999) }),
    value: fc.option(
      fc.record({
        offset: fc.maxSafeNat(),
        leaderEpoch: fc.integer({ min: -1, max: 0x7fff_ffff }),
        committedAtMs: fc.maxSafeNat(),
        metadata: fc.uint8Array({ maxLength: limits.groupMetadataBytesMax }),
      }),
      { nil: undefined },
    ),
  }),
);
/** A history of decided requests: the state as it was kept up, and the log. */
function history(requests: readonly Parameters<typeof decide>[1][]): { state: ShardState; log: EncodedRecord[] } {
  const state = createShardState();
  const log: EncodedRecord[] = [];
  const store = (record: GroupRecord): void => {
    log.push(encodeGroupRecord(record));
    replay(state, log.length - 1, record);
  };
  store({ kind: "owner", epoch: 3, member: "coordinator-1", instance: "i-1" });
  requests.forEach((request, i) => decide(state, request, 1_000 + i).records.forEach(store));
  return { state, log };
}
const requests = fc.array(fc.oneof(commitRequest, removeRequest), { maxLength: 20 });

describe("records", () => {
  test("come back as they were", () =>
    fc.assert(
      fc.property(anyRecord, (record) => {
        const { key, value } = encodeGroupRecord(record);
        expect(decodeGroupRecord(key, value)).toEqual(record);
        expect(sameRecord(encodeGroupRecord(record), { key, value })).toBe(true);
      }),
    ));
  test("bytes that nobody wrote are refused, never misread or thrown over", () =>
    fc.assert(
      fc.property(fc.option(fc.uint8Array({ maxLength: 60 })), fc.option(fc.uint8Array({ maxLength: 60 })), (key, value) => {
        try {
          const record = decodeGroupRecord(key, value);
          const again = encodeGroupRecord(record);
          expect(sameRecord(again, { key, value })).toBe(true);
        } catch (error) {
          expect(["CORRUPT_BATCH", "UNSUPPORTED_FORMAT", "INVALID_ARGUMENT"]).toContain((error as { code?: string }).code);
        }
      }),
      { numRuns: 2_000 },
    ));
  test("of a newer version are refused as such", () => {
    const offset: GroupRecord = { kind: "offset", key: { tenant: "d", group: "g", topicId: "t", partition: 0 }, value: undefined };
    const { key } = encodeGroupRecord(offset);
    expect(() => decodeGroupRecord(Uint8Array.of(9, 1), null)).toThrow(expect.objectContaining({ code: "UNSUPPORTED_FORMAT" }));
    expect(() => decodeGroupRecord(key.with(1, 2), null)).toThrow(expect.objectContaining({ code: "UNSUPPORTED_FORMAT" }));
    expect(() => decodeGroupRecord(key.subarray(0, -1), null)).toThrow(expect.objectContaining({ code: "CORRUPT_BATCH" }));
  });
  test("of a group without a value are malformed: only its members and offsets are removed one by one", () => {
    const group = { key: { tenant: "d", group: "g" } };
    const { key } = encodeGroupRecord({ kind: "gone", ...group });
    for (const kind of [3, 4])
      expect(() => decodeGroupRecord(key.with(0, kind), null)).toThrow(expect.objectContaining({ code: "CORRUPT_BATCH" }));
  });
});

describe("memberships", () => {
  const few = fc.constantFrom("g", "h");
  const stored = fc
    .array(membershipRecord, { maxLength: 30 })
    .chain((records) => fc.tuple(...records.map((record) => fc.tuple(fc.constant(record), few, fc.constantFrom("a", "b")))))
    .map((all) =>
      all.map(([r, group, memberId]) => ({ ...r, key: { ...("key" in r ? r.key : {}), tenant: "t", group, memberId } }) as GroupRecord),
    );
  test("replayed from a snapshot are those of the log, and what they take is counted right", () =>
    fc.assert(
      fc.property(stored, requests, (records, all) => {
        const state = createShardState();
        const store = (record: GroupRecord): void => {
          const { key, value } = encodeGroupRecord(record);
          replay(state, state.nextOffset, decodeGroupRecord(key, value));
        };
        records.forEach(store);
        all.forEach((request, i) => decide(state, request, 1_000 + i).records.forEach(store));
        const again = decodeShardSnapshot(encodeShardSnapshot(state, 1, crc32c), 1, crc32c);
        expect(again.groups.size).toBe(state.groups.size);
        expect([again.bytes, again.offsetCount]).toEqual([state.bytes, state.offsetCount]);
        for (const [key, group] of state.groups) {
          const { members } = again.groups.get(key) as NonNullable<ReturnType<typeof again.groups.get>>;
          // Two members that claim one partition: whoever said so last has it, which a snapshot does not tell.
          const bare = members?.kind === "consumer" ? { ...members, owners: undefined } : members;
          expect(bare).toEqual(group.members?.kind === "consumer" ? { ...group.members, owners: undefined } : group.members);
        }
        for (const group of state.groups.values()) store({ kind: "gone", key: { tenant: group.tenant, group: group.group } });
        expect([state.bytes, state.offsetCount, state.groups.size]).toEqual([0, 0, 0]);
      }),
      { numRuns: 100 },
    ));
  test("a value of more than 64 KiB comes back out of a snapshot", () => {
    const state = createShardState();
    const member = { memberId: "m", instanceId: "", clientId: "", clientHost: "", sessionTimeoutMs: 1, rebalanceTimeoutMs: 1 };
    const members = [{ ...member, metadata: new Uint8Array(0), assignment: new Uint8Array(70_000) }];
    const value: ClassicGroup = { kind: "classic", protocolType: "", generation: 1, protocol: "", leader: "m", emptySinceMs: -1, members };
    replay(state, 0, { kind: "classic", key: { tenant: "t", group: "g" }, value });
    const found = decodeShardSnapshot(encodeShardSnapshot(state, 1, crc32c), 1, crc32c).groups.get("t/g")?.members;
    expect(found?.kind === "classic" ? found.members[0]?.assignment.length : undefined).toBe(70_000);
  });
  test("a snapshot of the first version is still read", () => {
    const state = createShardState();
    const record = encodeGroupRecord({ kind: "owner", epoch: 2, member: "c", instance: "i" });
    replay(state, 0, decodeGroupRecord(record.key, record.value));
    const now = encodeShardSnapshot(state, 1, crc32c);
    const valueLengthAt = 24 + 2 + record.key.length;
    const old = new Uint8Array(now.length - 2);
    old.set(now.subarray(0, valueLengthAt));
    old.set(now.subarray(valueLengthAt + 2), valueLengthAt);
    old[4] = 1;
    new DataView(old.buffer).setUint32(old.length - 4, crc32c(old.subarray(0, -4)));
    expect(decodeShardSnapshot(old, 1, crc32c)).toEqual(state);
  });
});

describe("replay", () => {
  test("of what was written gives the state that was kept up", () =>
    fc.assert(
      fc.property(requests, (all) => {
        const { state, log } = history(all);
        const again = createShardState();
        log.forEach(({ key, value }, at) => replay(again, at, decodeGroupRecord(key, value)));
        expect(again).toEqual(state);
        let offsets = 0;
        for (const group of state.groups.values()) offsets += group.offsets.size;
        expect(state.offsetCount).toBe(offsets);
      }),
    ));
  test("a second time changes nothing, and a gap is an error", () => {
    const { state, log } = history([
      {
        kind: "commit",
        tenant: "default",
        group: "a",
        offsets: [{ topicId: "t", partition: 0, offset: 4, leaderEpoch: -1, metadata: new Uint8Array(0) }],
      },
    ]);
    const before = structuredClone(state);
    log.forEach(({ key, value }, at) => replay(state, at, decodeGroupRecord(key, value)));
    expect(state).toEqual(before);
    const record = { kind: "owner", epoch: 9, member: "x", instance: "i" } as const;
    expect(() => replay(state, state.nextOffset + 1, record)).toThrow(expect.objectContaining({ code: "CORRUPT_SEGMENT" }));
  });
});

describe("snapshot", () => {
  test("comes back as the state it was taken from", () =>
    fc.assert(
      fc.property(requests, fc.nat(100), (all, shard) => {
        const { state } = history(all);
        expect(decodeShardSnapshot(encodeShardSnapshot(state, shard, crc32c), shard, crc32c)).toEqual(state);
      }),
    ));
  test("damaged, cut or of another shard is refused", () =>
    fc.assert(
      fc.property(requests, fc.nat(), fc.integer({ min: 1, max: 255 }), (all, at, flip) => {
        const bytes = encodeShardSnapshot(history(all).state, 1, crc32c);
        const i = at % bytes.length;
        const refused = expect.objectContaining({ code: expect.stringMatching(/^(CORRUPT_SEGMENT|UNSUPPORTED_FORMAT)$/) as unknown });
        expect(() => decodeShardSnapshot(bytes.with(i, (bytes[i] as number) ^ flip), 1, crc32c)).toThrow(refused);
        expect(() => decodeShardSnapshot(bytes.subarray(0, i), 1, crc32c)).toThrow(refused);
        expect(() => decodeShardSnapshot(bytes, 2, crc32c)).toThrow(refused);
      }),
    ));
});

describe("limits", () => {
  const offset = (n: number, metadata = new Uint8Array(0)) => ({ topicId: "t", partition: n, offset: 1, leaderEpoch: -1, metadata });
  test("a request is stored whole or not at all", () => {
    const wide = Array.from({ length: 200 }, (_, i) => offset(i, new Uint8Array(limits.groupMetadataBytesMax)));
    const { records, reply } = decide(createShardState(), { kind: "commit", tenant: "d", group: "g", offsets: wide }, 0);
    expect(records).toEqual([]);
    expect(new Set(reply.codes)).toEqual(new Set(["MESSAGE_TOO_LARGE"]));
  });
  test("a full shard takes new offsets of the groups it knows, and no new group", () => {
    const state = createShardState();
    for (let i = 0; i < limits.groupsPerShardMax; i++) {
      const key = { tenant: "d", group: `g${i}`, topicId: "t", partition: 0 };
      replay(state, i, { kind: "offset", key, value: { offset: 1, leaderEpoch: -1, committedAtMs: 0, metadata: new Uint8Array(0) } });
    }
    const commit = (group: string) => decide(state, { kind: "commit", tenant: "d", group, offsets: [offset(1)] }, 0).reply.codes;
    expect(commit("g0")).toEqual([undefined]);
    expect(commit("new")).toEqual(["GROUP_LIMIT"]);
  });
  test("a shard whose state is full still takes commits that replace", () => {
    const state = createShardState();
    const key = { tenant: "d", group: "g", topicId: "t", partition: 0 };
    replay(state, 0, { kind: "offset", key, value: { offset: 1, leaderEpoch: -1, committedAtMs: 0, metadata: new Uint8Array(0) } });
    state.bytes = limits.groupStateBytesPerShardMax;
    const { reply } = decide(state, { kind: "commit", tenant: "d", group: "g", offsets: [offset(0), offset(1)] }, 0);
    expect(reply.codes).toEqual([undefined, "GROUP_LIMIT"]);
  });
});

describe("shards", () => {
  test("a group's shard is Kafka's partition of its name", () => {
    expect(shardOfGroup("readers", 8)).toBe(partitionOfKey(new TextEncoder().encode("readers"), 8));
    expect(new Set(Array.from({ length: 200 }, (_, i) => shardOfGroup(`group-${i}`, 8))).size).toBe(8);
  });
  test("a coordinator that comes moves only what it wins, one that goes only what it had", () => {
    const few = ["coordinator-1", "coordinator-2", "coordinator-3"];
    const more = [...few, "coordinator-4"];
    const shards = Array.from({ length: 400 }, (_, n) => n);
    for (const n of shards) {
      const owner = shardOwner(more, n);
      if (owner !== "coordinator-4") expect(shardOwner(few, n)).toBe(owner);
      expect(shardOwner(more.toReversed(), n)).toBe(owner);
    }
    for (const m of more) {
      const share = shards.filter((n) => shardOwner(more, n) === m).length;
      expect(share).toBeGreaterThan(60);
      expect(share).toBeLessThan(140);
    }
    expect(shardOwner([], 0)).toBeUndefined();
  });
});

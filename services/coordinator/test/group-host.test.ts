import { describe, expect, test } from "@jest/globals";
import {
  createShardState,
  decodeGroupRecord,
  encodeGroupRecord,
  groupRemovalOffsetsMax,
  replay,
  type ConsumerHeartbeat,
  type GroupRecord,
  type JoinReply,
  type JoinRequest,
} from "@sluice/core/group";
import { DEFAULT_TENANT, limits, SluiceError, topicId } from "@sluice/core/model";
import { createMetrics, systemClock } from "@sluice/runtime";
import { ManualClock, RecordingLogger } from "@sluice/runtime/testing";
import { Gate } from "../src/gate.ts";
import { groupConfigDefault } from "../src/group-config.ts";
import { GroupHost } from "../src/group-host.ts";
import { GroupTimers } from "../src/group-timers.ts";
import { deleteOffsets } from "../src/handlers/groups.ts";
import type { HandlerParts } from "../src/handlers/parts.ts";
import type { ChangeRequest } from "../src/request-queue.ts";
import type { Shard } from "../src/shard.ts";
import { Waiting } from "../src/waiting.ts";
import { testMetrics, World, type Host } from "./support/world.ts";

const key = { tenant: "t", group: "g" };
const never = new AbortController().signal;
const config = { ...groupConfigDefault, sessionTimeoutMinMs: 1, initialRebalanceDelayMs: 0, consumerSessionTimeoutMs: 1_000 };
const topics = {
  topic: () => ({ topicId: "orders", partitions: 4 }),
  matching: () => [],
  checkPattern: () => undefined,
  version: 1,
};

/** A shard whose changes are decided when the test says so; what they store is replayed at once. */
class SlowShard {
  readonly shard = 0;
  readonly phase = "active";
  readonly state = createShardState();
  readonly log: GroupRecord[] = [];
  /** The queue is full: changes are refused. */
  full = false;
  isOver = false;
  readonly waiting: (() => void)[] = [];
  readonly #ended = Promise.withResolvers<void>();

  get ended(): Promise<void> {
    return this.#ended.promise;
  }
  end(): void {
    this.isOver = true;
    this.#ended.resolve();
  }
  change<R>(request: ChangeRequest<R>): Promise<R> {
    if (this.isOver) return Promise.reject(new SluiceError("NOT_COORDINATOR", "gone"));
    if (this.full) return Promise.reject(new SluiceError("OVERLOADED", "full"));
    return new Promise((resolve, reject) =>
      this.waiting.push(() => {
        try {
          const { records, reply } = request.decide(this.state, 1);
          for (const record of records) {
            const bytes = encodeGroupRecord(record);
            this.log.push(record);
            replay(this.state, this.state.nextOffset, decodeGroupRecord(bytes.key, bytes.value));
          }
          resolve(reply);
        } catch (error) {
          reject(error as Error);
        }
      }),
    );
  }
  decideAll(): void {
    for (const go of this.waiting.splice(0)) go();
  }
  get generations(): (number | string)[] {
    return this.log.map((r) => (r.kind === "classic" ? r.value.generation : r.kind));
  }
}
class Scene {
  readonly clock = new ManualClock();
  readonly lines = new RecordingLogger();
  readonly shard = new SlowShard();
  readonly metrics = createMetrics({ service: "coordinator" });
  readonly host = new GroupHost(
    { clock: this.clock, logger: this.lines, config, topics, metrics: testMetrics(this.metrics) },
    this.shard as unknown as Shard,
  );
  constructor() {
    this.host.begin(this.shard.state);
  }
  join(newMemberId: string, memberId = "", more: Partial<JoinRequest> = {}): Promise<JoinReply> {
    return this.host.join(
      {
        ...key,
        memberId,
        instanceId: "",
        clientId: "c",
        clientHost: "h",
        sessionTimeoutMs: 60_000,
        rebalanceTimeoutMs: 60_000,
        protocolType: "consumer",
        protocols: [{ name: "range", metadata: new Uint8Array(4) }],
        requireKnownMemberId: false,
        supportsSkipAssignment: false,
        newMemberId,
        ...more,
      },
      never,
    );
  }
  sync(memberId: string, generation: number, assignmentBytes = 1) {
    const assignments = new Map([[memberId, new Uint8Array(assignmentBytes)]]);
    return this.host.sync(
      { ...key, memberId, instanceId: "", generation, protocolType: undefined, protocol: undefined, assignments },
      never,
    );
  }
  beat(memberId: string, memberEpoch: number) {
    const r: ConsumerHeartbeat = {
      ...key,
      memberId,
      memberEpoch,
      instanceId: "",
      rackId: "",
      clientId: "",
      clientHost: "",
      rebalanceTimeoutMs: undefined,
      subscription: { topics: ["orders"], pattern: "" },
      assignor: "",
      owned: undefined,
    };
    return this.host.consumerHeartbeat(r, Infinity, never);
  }
  /** The first generation's assignment goes to the log, and the second generation begins and is agreed on. */
  async twoGenerations(meanwhile: () => void): Promise<void> {
    await this.join("m1");
    const first = this.sync("m1", 1);
    await turns();
    meanwhile();
    const second = this.join("m2");
    const again = this.join("", "m1");
    expect([(await first).code, (await second).generation, (await again).generation]).toEqual(["REBALANCE_IN_PROGRESS", 2, 2]);
    void this.sync("m2", 2);
    void this.sync("m1", 2);
    await turns();
  }
}
const turns = async (): Promise<void> => {
  for (let i = 0; i < 10; i++) await Promise.resolve();
};

describe("the record of a classic group", () => {
  test("that found no room is not stored behind a newer one", async () => {
    const scene = new Scene();
    scene.shard.full = true;
    await scene.twoGenerations(() => (scene.shard.full = false));
    scene.shard.decideAll();
    await scene.clock.advanceAsync(1_000);
    scene.shard.decideAll();
    expect(scene.shard.generations).toEqual([2]);
  });
  test("that waits in the queue is not stored once there is a newer one", async () => {
    const scene = new Scene();
    await scene.twoGenerations(() => undefined);
    expect(scene.shard.waiting).toHaveLength(2);
    scene.shard.decideAll();
    expect(scene.shard.generations).toEqual([2]);
  });
  test("that found no room does not bring a deleted group back", async () => {
    const scene = new Scene();
    await scene.join("m1");
    const synced = scene.sync("m1", 1);
    await turns();
    scene.shard.decideAll();
    expect((await synced).code).toBeUndefined();
    scene.shard.full = true;
    await scene.host.leave({ ...key, members: [{ memberId: "m1", instanceId: "" }] }, never);
    await turns();
    scene.shard.full = false;
    const deleted = scene.host.delete(key, Infinity);
    scene.shard.decideAll();
    await deleted;
    await scene.clock.advanceAsync(1_000);
    scene.shard.decideAll();
    expect(scene.shard.generations).toEqual([1, "gone"]);
    expect(scene.shard.state.groups.size).toBe(0);
  });
  test("that no attempt can store is told to who waits", async () => {
    const scene = new Scene();
    await scene.join("m1");
    const synced = scene.sync("m1", 1);
    await turns();
    scene.shard.change = () => Promise.reject(new SluiceError("MESSAGE_TOO_LARGE", "too large"));
    const second = scene.join("m2");
    const again = scene.join("", "m1");
    await Promise.all([synced, second, again]);
    const other = await scene.sync("m1", 2);
    expect([(await synced).code, other.code]).toEqual(["REBALANCE_IN_PROGRESS", "MESSAGE_TOO_LARGE"]);
    expect(scene.lines.find("group not stored")?.fields).toMatchObject({ group: "g", code: "MESSAGE_TOO_LARGE" });
  });
});

describe("figures", () => {
  test("tell members, who waits, and how often groups were assigned anew", async () => {
    const scene = new Scene();
    const { host, metrics } = scene;
    await scene.join("m1");
    void scene.join("m2");
    await turns();
    expect([host.memberCount, host.waiting]).toEqual([2, 1]);
    await scene.join("", "m1");
    expect(host.waiting).toBe(0);
    expect(await metrics.value("sluice_coordinator_rebalances_total", { kind: "classic" })).toBe(2);
    const other = new Scene();
    const joined = other.beat("a", 0);
    await turns();
    other.shard.decideAll();
    expect((await joined).memberEpoch).toBe(1);
    const beat = other.beat("a", 1);
    await turns();
    other.shard.decideAll();
    await beat;
    expect(other.host.memberCount).toBe(1);
    expect(await other.metrics.value("sluice_coordinator_rebalances_total", { kind: "consumer" })).toBe(1);
  });
});

describe("what has ended", () => {
  test("stays closed: timers, calls that wait, the gate", async () => {
    const clock = new ManualClock();
    const fired: string[] = [];
    const timers = new GroupTimers(clock, (k) => void fired.push(k));
    timers.close();
    timers.arm("g", 5);
    expect(clock.pendingTimers).toBe(0);
    const waiting = new Waiting<number>();
    waiting.close(new SluiceError("NOT_COORDINATOR", "moved"));
    expect(() => waiting.open(never)).toThrow(expect.objectContaining({ code: "NOT_COORDINATOR" }));
    const gate = new Gate();
    gate.open();
    await gate.pass(never);
    gate.break(new SluiceError("NOT_COORDINATOR", "moved"));
    await expect(gate.pass(never)).rejects.toMatchObject({ code: "NOT_COORDINATOR" });
    expect(fired).toEqual([]);
  });
  test("answers nobody from its memory", async () => {
    const scene = new Scene();
    await scene.join("m1");
    scene.shard.end();
    await turns();
    await expect(scene.join("m2")).rejects.toMatchObject({ code: "NOT_COORDINATOR" });
    const heard = scene.host.heartbeat({ ...key, memberId: "m1", instanceId: "", generation: 1 }, never);
    await expect(heard).rejects.toMatchObject({ code: "NOT_COORDINATOR" });
    expect(scene.clock.pendingTimers).toBe(0);
  });
  test("members that fall silent are told of once, when they are out", async () => {
    const scene = new Scene();
    const joined = scene.beat("a", 0);
    await turns();
    scene.shard.decideAll();
    await joined;
    scene.shard.full = true;
    await scene.clock.advanceAsync(1_900);
    expect(scene.lines.events()).not.toContain("group member silent");
    scene.shard.full = false;
    await scene.clock.advanceAsync(100);
    scene.shard.decideAll();
    await scene.clock.advanceAsync(100);
    expect(scene.lines.events().filter((e) => e === "group member silent")).toHaveLength(1);
    expect(scene.host.memberCount).toBe(0);
    scene.shard.end();
    await scene.clock.advanceAsync(1_000);
    expect(scene.clock.pendingTimers).toBe(0);
  });
});

describe("a change that no append can hold", () => {
  test("fails alone: what is behind it goes on", async () => {
    await using world = new World();
    const a = await world.take("a");
    const member = { memberId: "m", instanceId: "", clientId: "", clientHost: "", sessionTimeoutMs: 1, rebalanceTimeoutMs: 1 };
    const store = (assignmentBytes: number): Promise<undefined> => {
      const members = [{ ...member, metadata: new Uint8Array(0), assignment: new Uint8Array(assignmentBytes) }];
      const value = { kind: "classic", protocolType: "", generation: 1, protocol: "", leader: "m", emptySinceMs: -1, members } as const;
      const decide = () => ({ records: [{ kind: "classic", key, value }] as const, reply: undefined });
      return a.shard.change({ key: "t/g", isExclusive: true, bytes: 1, decide }, Infinity);
    };
    a.log.fates.push("held");
    const first = world.commit(a, 1);
    const large = store(limits.messageBytesDefault);
    const behind = world.commit(a, 2);
    const allowed = store(limits.groupMembershipBytesMax);
    a.log.release();
    await expect(large).rejects.toMatchObject({ code: "MESSAGE_TOO_LARGE" });
    a.log.release();
    await Promise.all([first, behind, allowed]);
    expect(await world.fetch(a)).toEqual({ "orders/0": 2 });
  });
});

describe("offsets of a whole topic", () => {
  const ORDERS = topicId("22222222-2222-4222-8222-222222222222");
  const stored = (host: Host, count: number): Promise<unknown> => {
    const offsets = Array.from({ length: count }, (_, partition) => ({
      topicId: ORDERS,
      partition,
      offset: 1,
      leaderEpoch: -1,
      metadata: new Uint8Array(0),
    }));
    return host.shard.submit({ kind: "commit", tenant: DEFAULT_TENANT, group: "g", offsets }, systemClock.monotonicMs() + 20_000);
  };
  /** The handler over one shard. */
  const handler = (host: Host) => {
    const metrics = testMetrics(createMetrics({ service: "coordinator" }));
    const groups = new GroupHost({ clock: systemClock, logger: host.lines, config, topics, metrics }, host.shard);
    const parts = {
      clock: systemClock,
      shards: new Map([[0, host.shard]]),
      shardCount: 1,
      topics: { byName: () => Promise.resolve({ topicId: ORDERS }) },
      groupsOf: () => groups,
    };
    return deleteOffsets(parts as unknown as HandlerParts);
  };
  const request = { group: "g", topics: [{ topic: "orders", partitions: [] }] };
  const context = { remainingMs: () => 20_000, signal: never };
  type Arguments = Parameters<ReturnType<typeof handler>>;

  test("are deleted also while the shard is being loaded, and in as many appends as they take", async () => {
    await using world = new World();
    const a = await world.take("a");
    const count = groupRemovalOffsetsMax + 10;
    await stored(a, count);
    a.shard.stop();
    const b = world.open("b", (log) => (log.unreadable = true));
    const deleted = handler(b)(...([request, context] as unknown as Arguments));
    await systemClock.sleep(20);
    expect(b.shard.state.groups.size).toBe(0);
    b.log.unreadable = false;
    const { results } = await deleted;
    expect(results).toHaveLength(count);
    expect(results.every((r) => r.error === 0)).toBe(true);
    expect(b.shard.state.offsetCount).toBe(0);
  });
});

import {
  classicDueMs,
  createClassics,
  createShardState,
  decide,
  decideExpel,
  decideHeartbeat,
  decodeGroupRecord,
  decodeShardSnapshot,
  EPOCH_LEFT_STATIC,
  encodeGroupRecord,
  encodeShardSnapshot,
  groupKey,
  heartbeat,
  isNewest,
  join,
  leave,
  replay,
  restoreClassic,
  stored,
  sync,
  timePassed,
  type Assignment,
  type Classics,
  type ClassicStep,
  type EncodedRecord,
  type GroupConfig,
  type GroupRecord,
  type HeartbeatReply,
  type JoinReply,
  type ShardState,
  type SyncReply,
} from "../../src/group/index.ts";
import { crc32c } from "../log/support.ts";

export const tenant = "default";
export const SERVED = "served";
export const CLASSIC = "classic";
const config: GroupConfig = {
  sessionTimeoutMinMs: 1_000,
  sessionTimeoutMaxMs: 60_000,
  initialRebalanceDelayMs: 500,
  membersMax: 20,
  consumerSessionTimeoutMs: 10_000,
  consumerHeartbeatIntervalMs: 1_000,
  offsetsRetentionMs: 100_000,
};
const SESSION_MS = 6_000;
const REBALANCE_MS = 9_000;

/** What a client of a group that the server assigns believes. */
export class ServedClient {
  epoch = 0;
  owned: Assignment = [];
  isGone = false;
  readonly id: string;
  readonly instanceId: string;
  readonly topics: readonly string[];
  constructor(id: string, instanceId: string, topics: readonly string[]) {
    this.id = id;
    this.instanceId = instanceId;
    this.topics = topics;
  }
}
/** A classic client: it has a ticket while it waits for an answer. */
export class ClassicClient {
  id = "";
  generation = -1;
  leads = false;
  /** Undefined: it has none. */
  assignment: string | undefined;
  waitsFor: number | undefined;
  isGone = false;
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

interface Pending {
  readonly records: () => readonly GroupRecord[];
  readonly then: () => void;
}

/** The shipped machines with a log, clients that keep to the protocols, and one that may die at any moment. */
export class GroupModel {
  readonly served: ServedClient[] = [];
  readonly classic: ClassicClient[] = [];
  readonly topics = new Map<string, number>([["t", 5]]);
  /** Committed and acknowledged, by place. */
  readonly committed = new Map<string, number>();
  /** Of each generation, what its leader sent. */
  readonly plans = new Map<number, ReadonlyMap<string, string>>();
  readonly log: EncodedRecord[] = [];
  state: ShardState = createShardState();
  classics: Classics = createClassics(config);
  nowMs = 1_000;
  #pending: Pending[] = [];
  #tickets = 0;
  #ids = 0;
  /** Answers of a coordinator that has died are not given. */
  #life = 0;

  /** A client of the served group says that it is there; `isLost`: it does not hear the answer. */
  beat(client: ServedClient, isLost = false): void {
    if (client.isGone) return;
    const joins = client.epoch === 0;
    const { records, reply } = decideHeartbeat(
      this.state,
      {
        tenant,
        group: SERVED,
        memberId: client.id,
        memberEpoch: client.epoch,
        instanceId: client.instanceId,
        rackId: "",
        clientId: "c",
        clientHost: "h",
        rebalanceTimeoutMs: joins ? REBALANCE_MS : undefined,
        subscription: joins ? { topics: client.topics, pattern: "" } : undefined,
        assignor: "",
        owned: joins ? [] : client.owned,
      },
      this.#context(),
    );
    this.#append(records);
    if (!isLost) this.#hear(client, reply);
  }
  #hear(client: ServedClient, reply: HeartbeatReply): void {
    if (reply.code !== undefined) {
      // Fenced or unknown: it drops what it has and joins anew. One whose name another took is gone.
      client.owned = [];
      client.epoch = 0;
      if (reply.code === "FENCED_INSTANCE_ID" || reply.code === "UNRELEASED_INSTANCE_ID") client.isGone = true;
      return;
    }
    client.epoch = reply.memberEpoch;
    if (reply.assignment !== undefined) client.owned = reply.assignment;
  }
  leaveServed(client: ServedClient): void {
    if (client.isGone || client.epoch === 0) return;
    const memberEpoch = client.instanceId === "" ? -1 : EPOCH_LEFT_STATIC;
    const { records } = decideHeartbeat(
      this.state,
      { ...this.#bare(client), memberEpoch, subscription: undefined, owned: undefined },
      this.#context(),
    );
    this.#append(records);
    client.owned = [];
    client.epoch = 0;
  }
  #bare(client: ServedClient) {
    return {
      tenant,
      group: SERVED,
      memberId: client.id,
      instanceId: client.instanceId,
      rackId: "",
      clientId: "c",
      clientHost: "h",
      rebalanceTimeoutMs: undefined,
      assignor: "",
    };
  }
  /** Its session is over: the coordinator says so, and the client finds out with its next heartbeat. Until then it may think what it likes. */
  expel(client: ServedClient): void {
    this.#append(decideExpel(this.state, { tenant, group: SERVED }, [client.id], this.nowMs));
  }
  /** Whether the coordinator takes the client for the member that it says it is. */
  isMember(client: ServedClient): boolean {
    const members = this.state.groups.get(groupKey(tenant, SERVED))?.members;
    const member = members?.kind === "consumer" ? members.members.get(client.id) : undefined;
    return member !== undefined && member.memberEpoch >= 0 && client.epoch > 0;
  }
  #context() {
    return {
      config,
      topics: {
        topic: (_: string, name: string) => {
          const partitions = this.topics.get(name);
          return partitions === undefined ? undefined : { topicId: name, partitions };
        },
        matching: () => [],
      },
      nowMs: this.nowMs,
      hasClassicMembers: false,
      topicsAreKnown: false,
    };
  }

  joinClassic(client: ClassicClient): void {
    if (client.isGone || client.waitsFor !== undefined) return;
    const ticket = (this.#tickets += 1);
    client.waitsFor = ticket;
    client.assignment = undefined;
    client.generation = -1;
    this.#step((step) =>
      join(
        step,
        this.state,
        {
          tenant,
          group: CLASSIC,
          memberId: client.id,
          instanceId: "",
          clientId: "c",
          clientHost: "h",
          sessionTimeoutMs: SESSION_MS,
          rebalanceTimeoutMs: REBALANCE_MS,
          protocolType: "consumer",
          protocols: [{ name: "range", metadata: new Uint8Array(1) }],
          requireKnownMemberId: true,
          supportsSkipAssignment: false,
          newMemberId: client.id === "" ? `m${(this.#ids += 1)}` : "",
        },
        ticket,
      ),
    );
  }
  #joined(ticket: number, reply: JoinReply): void {
    const client = this.classic.find((one) => one.waitsFor === ticket);
    if (client === undefined) return;
    client.waitsFor = undefined;
    if (reply.code !== undefined) {
      client.id = reply.code === "MEMBER_ID_REQUIRED" ? reply.memberId : reply.code === "UNKNOWN_MEMBER" ? "" : client.id;
      return;
    }
    client.id = reply.memberId;
    client.generation = reply.generation;
    client.leads = reply.leader === reply.memberId;
    const members = reply.members.map(({ memberId }) => memberId);
    // Clients share the partitions among those that the coordinator named, whatever happened since.
    this.#syncClassic(
      client,
      client.leads ? new Map(members.map((id, i) => [id, `${reply.generation}:${i}/${members.length}`])) : new Map(),
    );
  }
  #syncClassic(client: ClassicClient, plan: ReadonlyMap<string, string>): void {
    const ticket = (this.#tickets += 1);
    client.waitsFor = ticket;
    if (plan.size > 0) this.plans.set(client.generation, plan);
    const { id, generation } = client;
    const assignments = new Map([...plan].map(([member, text]) => [member, new TextEncoder().encode(text)]));
    const request = {
      tenant,
      group: CLASSIC,
      memberId: id,
      instanceId: "",
      generation,
      protocolType: undefined,
      protocol: undefined,
      assignments,
    };
    this.#step((step) => sync(step, request, ticket));
  }
  #synced(ticket: number, reply: SyncReply): void {
    const client = this.classic.find((one) => one.waitsFor === ticket);
    if (client === undefined) return;
    client.waitsFor = undefined;
    if (reply.code === undefined) client.assignment = new TextDecoder().decode(reply.assignment);
    else if (reply.code === "UNKNOWN_MEMBER") client.id = "";
  }
  /** What a client does when nothing keeps it: asks whether all is well, and joins again when it is not. */
  beatClassic(client: ClassicClient): void {
    if (client.isGone || client.waitsFor !== undefined) return;
    const { id, generation } = client;
    if (id === "" || generation < 0 || client.assignment === undefined) return this.joinClassic(client);
    const code = this.#step((step) => heartbeat(step, { tenant, group: CLASSIC, memberId: id, instanceId: "", generation }));
    if (code === undefined) return;
    client.assignment = undefined;
    if (code === "UNKNOWN_MEMBER") client.id = "";
    this.joinClassic(client);
  }
  leaveClassic(client: ClassicClient): void {
    if (client.id === "") return;
    const { id } = client;
    this.#step((step) => leave(step, { tenant, group: CLASSIC, members: [{ memberId: id, instanceId: "" }] }));
    client.id = "";
    client.generation = -1;
    client.assignment = undefined;
    client.waitsFor = undefined;
  }

  commit(group: string, partition: number, offset: number): void {
    const offsets = [{ topicId: "t", partition, offset, leaderEpoch: -1, metadata: new Uint8Array(0) }];
    const { records, reply } = decide(this.state, { kind: "commit", tenant, group, offsets }, this.nowMs);
    this.#append(records);
    if (reply.codes[0] === undefined) this.committed.set(`${group} t/${partition}`, offset);
  }

  /** What waits for the log is stored. */
  store(): void {
    for (const { records, then } of this.#pending.splice(0)) {
      this.#append(records());
      then();
    }
  }
  /** From one moment that somebody waits for to the next. */
  pass(ms: number): void {
    const untilMs = this.nowMs + ms;
    for (;;) {
      const due = Math.min(untilMs, ...[...this.classics.groups.values()].map(classicDueMs));
      this.nowMs = Math.max(this.nowMs, due);
      for (const [key, g] of this.classics.groups) {
        if (classicDueMs(g) > this.nowMs) continue;
        if (!this.#step((step) => timePassed(step, g))) this.classics.groups.delete(key);
      }
      if (due >= untilMs) return;
    }
  }
  /** The coordinator dies: what was not stored is lost, and who waited hears nothing and asks again. */
  takeOver(): void {
    this.#life += 1;
    this.#pending = [];
    this.state = decodeShardSnapshot(encodeShardSnapshot(this.state, 1, crc32c), 1, crc32c);
    this.classics = { ...createClassics(config), nextToken: this.classics.nextToken };
    const now = { monotonicMs: this.nowMs, wallMs: this.nowMs };
    for (const [key, group] of this.state.groups)
      if (group.members?.kind === "classic") this.classics.groups.set(key, restoreClassic(group, group.members, now));
    for (const client of this.classic) client.waitsFor = undefined;
  }

  #append(records: readonly GroupRecord[]): void {
    for (const record of records) {
      const { key, value } = encodeGroupRecord(record);
      this.log.push({ key, value });
      replay(this.state, this.log.length - 1, decodeGroupRecord(key, value));
    }
  }
  #step<T>(run: (step: ClassicStep) => T): T {
    const step: ClassicStep = { all: this.classics, now: { monotonicMs: this.nowMs, wallMs: this.nowMs }, effects: [] };
    const result = run(step);
    for (const effect of step.effects) {
      if (effect.kind === "joined") this.#joined(effect.ticket, effect.reply);
      else if (effect.kind === "synced") this.#synced(effect.ticket, effect.reply);
      else {
        const { key, value, token } = effect;
        const id = groupKey(tenant, CLASSIC);
        const life = this.#life;
        const isAlive = (): boolean => life === this.#life && isNewest(this.classics, id, token);
        this.#pending.push({
          records: () => (isAlive() ? [{ kind: "classic", key, value }] : []),
          then: () => void (life === this.#life && this.#step((s) => stored(s, id, token))),
        });
      }
    }
    return result;
  }
}

import {
  checkHeartbeat,
  classicDueMs,
  createClassics,
  createShardState,
  decide,
  decideDelete,
  decideDeleteOffsets,
  decideExpel,
  decideExpiry,
  decideHeartbeat,
  decodeGroupRecord,
  decodeShardSnapshot,
  describeGroup,
  encodeGroupRecord,
  encodeShardSnapshot,
  groupKey,
  heartbeat,
  join,
  leave,
  listGroups,
  mayCommit,
  mayUseOffsets,
  refuseOffsets,
  replay,
  restoreClassic,
  stored,
  sync,
  timePassed,
  toAssignment,
  type Assignment,
  type Classics,
  type ClassicStep,
  type EncodedRecord,
  type GroupConfig,
  type GroupRecord,
  type ShardState,
} from "../../src/group/index.ts";
import { crc32c } from "../log/support.ts";

const utf8 = new TextEncoder();
const text = new TextDecoder();
const config: GroupConfig = {
  sessionTimeoutMinMs: 1_000,
  sessionTimeoutMaxMs: 60_000,
  initialRebalanceDelayMs: 0,
  membersMax: 4,
  consumerSessionTimeoutMs: 10_000,
  consumerHeartbeatIntervalMs: 1_000,
  offsetsRetentionMs: 100_000,
};
const tenant = "default";

/** The machines with a log that a person can read; see testdata/group-members/README.md. */
export class MembersWorld {
  lines: string[] = [];
  #state: ShardState = createShardState();
  #classics: Classics = createClassics(config);
  #config = config;
  readonly #log: EncodedRecord[] = [];
  #waiting: { readonly records: readonly GroupRecord[]; readonly then: () => void }[] = [];
  #nowMs = 1_000;
  #ids = 0;
  #ticket = 0;
  readonly #topics = new Map<string, number>();

  run(line: string): void {
    const [command, ...args] = line.split(" ") as [string, ...string[]];
    const words = args.filter((a) => !a.includes("="));
    const options = new Map(args.filter((a) => a.includes("=")).map((a) => [a.slice(0, a.indexOf("=")), a.slice(a.indexOf("=") + 1)]));
    const run = (this.#commands as Readonly<Record<string, ((words: string[], o: Map<string, string>) => void) | undefined>>)[command];
    if (run === undefined) throw new Error(`no such command: ${line}`);
    run(words, options);
  }

  readonly #commands = {
    config: (_: string[], o: Map<string, string>): void => {
      for (const [key, value] of o) this.#config = { ...this.#config, [key]: Number(value) };
      this.#classics = createClassics(this.#config);
    },
    topic: ([name, n]: string[]): void => void this.#topics.set(name as string, Number(n)),
    at: ([ms]: string[]): void => this.#pass(Number(ms)),
    join: ([group = ""]: string[], o: Map<string, string>): void => {
      const ticket = ++this.#ticket;
      const sessionTimeoutMs = Number(o.get("session") ?? 10_000);
      this.#say(`join ${ticket}`);
      this.#step(group, (step) =>
        join(
          step,
          this.#state,
          {
            tenant,
            group,
            memberId: o.get("id") ?? "",
            instanceId: o.get("static") ?? "",
            clientId: "c",
            clientHost: "h",
            sessionTimeoutMs,
            rebalanceTimeoutMs: Number(o.get("rebalance") ?? 30_000),
            protocolType: o.get("type") ?? "consumer",
            protocols: (o.get("protocols") ?? "range:x").split(",").flatMap((p) => {
              const [name = "", metadata = ""] = p.split(":");
              return name === "" ? [] : [{ name, metadata: utf8.encode(metadata) }];
            }),
            requireKnownMemberId: o.get("old") === undefined,
            supportsSkipAssignment: o.get("skip") !== undefined,
            newMemberId: o.has("id") ? "" : `m${++this.#ids}`,
          },
          ticket,
        ),
      );
    },
    sync: ([group = "", memberId = ""]: string[], o: Map<string, string>): void => {
      const ticket = ++this.#ticket;
      const pairs = (o.get("assign") ?? "").split(",").flatMap((p) => (p === "" ? [] : [p.split(":") as [string, string]]));
      this.#say(`sync ${ticket}`);
      this.#step(group, (step) =>
        sync(
          step,
          {
            tenant,
            group,
            memberId,
            instanceId: o.get("static") ?? "",
            generation: Number(o.get("gen")),
            protocolType: o.get("type"),
            protocol: o.get("protocol"),
            assignments: new Map(pairs.map(([id, a]) => [id, utf8.encode(a)])),
          },
          ticket,
        ),
      );
    },
    heartbeat: ([group = "", memberId = ""]: string[], o: Map<string, string>): void => {
      const r = { tenant, group, memberId, instanceId: o.get("static") ?? "", generation: Number(o.get("gen")) };
      this.#say(`heartbeat ${memberId}: ${this.#step(group, (step) => heartbeat(step, r)) ?? "ok"}`);
    },
    leave: ([group = "", ...ids]: string[], o: Map<string, string>): void => {
      const members = ids.map((memberId) => ({ memberId, instanceId: "" }));
      if (o.has("static")) members.push({ memberId: "", instanceId: o.get("static") as string });
      const reply = this.#step(group, (step) => leave(step, { tenant, group, members }));
      for (const m of reply.members) this.#say(`leave ${m.memberId}${m.instanceId}: ${m.code ?? "ok"}`);
    },
    call: ([group = "", memberId = "", epoch = "0"]: string[], o: Map<string, string>): void => this.#call(group, memberId, epoch, o),
    commit: ([group = "", at = ""]: string[], o: Map<string, string>): void => this.#commit(group, at, o),
    delete: ([group = ""]: string[]): void => {
      const { records, code } = decideDelete(this.#state, this.#classics, { tenant, group });
      this.#decided(records, () => this.#say(`delete ${group}: ${code ?? "ok"}`));
      if (code === undefined) this.#classics.groups.delete(groupKey(tenant, group));
    },
    forget: ([group = "", topic = "", n = "0"]: string[]): void => {
      const offsets = [{ topic, topicId: topic, partition: Number(n) }];
      const { records, code, codes } = decideDeleteOffsets(this.#state, this.#classics, { tenant, group }, offsets, () => []);
      this.#decided(records, () => this.#say(`forget ${topic}/${n}: ${code ?? codes[0] ?? "ok"}`));
    },
    expire: (): void => {
      for (const { group } of this.#state.groups.values()) {
        const records = decideExpiry(this.#state, this.#classics, { tenant, group }, this.#nowMs, this.#config.offsetsRetentionMs);
        if (records.length > 0) this.#decided(records, () => undefined);
        if (records[0]?.kind === "gone") this.#classics.groups.delete(groupKey(tenant, group));
      }
      this.#append();
    },
    expel: ([group = "", ...ids]: string[]): void => {
      this.#decided(decideExpel(this.#state, { tenant, group }, ids, this.#nowMs), () => this.#say(`expelled ${ids.join(" ")}`));
    },
    append: (): void => this.#append(),
    takeover: (): void => this.#takeover(),
    list: (): void => {
      const page = { after: "", limit: 10, states: [], kinds: [] };
      for (const g of listGroups(this.#state, this.#classics, tenant, page).groups)
        this.#say(`${g.group}: ${g.kind} ${g.state} ${g.protocolType || "-"}`);
    },
    describe: ([group = ""]: string[]): void => this.#describe(group),
  } as const;

  #call(group: string, memberId: string, epoch: string, o: Map<string, string>): void {
    const owned = o.get("owned");
    const topics = o.get("topics");
    const r = {
      tenant,
      group,
      memberId,
      memberEpoch: Number(epoch),
      instanceId: o.get("static") ?? "",
      rackId: "",
      clientId: "c",
      clientHost: "h",
      rebalanceTimeoutMs: undefined,
      subscription:
        topics === undefined ? undefined : { topics: topics.split(",").filter((t) => !t.startsWith("/")), pattern: patternOf(topics) },
      assignor: o.get("assignor") ?? "",
      owned: owned === undefined ? undefined : parseAssignment(owned),
    };
    try {
      checkHeartbeat(r);
    } catch (error) {
      return this.#say(`${memberId}: ${(error as { code: string }).code}`);
    }
    const { records, reply } = decideHeartbeat(this.#state, r, {
      config: this.#config,
      topics: {
        topic: (_, name) => {
          const partitions = this.#topics.get(name);
          return partitions === undefined ? undefined : { topicId: name, partitions };
        },
        matching: (_, pattern) => [...this.#topics.keys()].filter((name) => new RegExp(`^(?:${pattern})$`).test(name)),
      },
      nowMs: this.#nowMs,
      hasClassicMembers: (this.#classics.groups.get(groupKey(tenant, group))?.members.size ?? 0) > 0,
      topicsAreKnown: false,
    });
    this.#decided(records, () =>
      this.#say(
        reply.code === undefined
          ? `${reply.memberId}: epoch ${reply.memberEpoch}${reply.assignment === undefined ? "" : ` reads ${showAssignment(reply.assignment)}`}`
          : `${memberId}: ${reply.code}`,
      ),
    );
    this.#append();
  }

  #commit(group: string, at: string, o: Map<string, string>): void {
    const [place = "", offset = ""] = at.split("@");
    const [topicId = "", n] = place.split("/");
    const offsets = [{ topicId, partition: Number(n), offset: Number(offset), leaderEpoch: -1, metadata: new Uint8Array(0) }];
    const request = { kind: "commit", tenant, group, offsets } as const;
    const memberId = o.get("by") ?? "";
    const epoch = Number(o.get("epoch") ?? -1);
    const classic = this.#classics.groups.get(groupKey(tenant, group));
    const members = this.#state.groups.get(groupKey(tenant, group))?.members;
    const code =
      classic !== undefined
        ? mayCommit(this.#now(), classic, { memberId, instanceId: "", generation: epoch })
        : members?.kind === "consumer"
          ? mayUseOffsets(members, memberId, epoch)
          : undefined;
    const { records, reply } = code === undefined ? decide(this.#state, request, this.#nowMs) : refuseOffsets(request, code);
    this.#decided(records, () => this.#say(`commit ${at}: ${reply.codes[0] ?? "ok"}`));
    this.#append();
  }

  #now(): ClassicStep {
    return { all: this.#classics, now: { monotonicMs: this.#nowMs, wallMs: this.#nowMs }, effects: [] };
  }
  #step<T>(group: string, run: (step: ClassicStep) => T): T {
    const step = this.#now();
    const result = run(step);
    for (const effect of step.effects) {
      if (effect.kind === "store") {
        const { key, value, token } = effect;
        const then = (): void => this.#step(group, (s) => stored(s, groupKey(tenant, group), token));
        this.#decided([{ kind: "classic", key, value }], then);
        continue;
      }
      const { ticket, reply } = effect;
      if (reply.code !== undefined)
        this.#say(`answer ${ticket}: ${reply.code}${"memberId" in reply && reply.memberId !== "" ? ` ${reply.memberId}` : ""}`);
      else if ("memberId" in reply) {
        const members = reply.members.map((m) => `${m.memberId}(${text.decode(m.metadata)})`).join(" ");
        const skip = reply.skipAssignment ? " keeps the assignment" : "";
        this.#say(
          `answer ${ticket}: ${reply.memberId} generation ${reply.generation} ${reply.protocol}, leader ${reply.leader}${members === "" ? "" : `: ${members}`}${skip}`,
        );
      } else this.#say(`answer ${ticket}: assigned ${text.decode(reply.assignment) || "nothing"}`);
    }
    return result;
  }
  /** Time passes in steps from one moment that somebody waits for to the next. */
  #pass(untilMs: number): void {
    for (;;) {
      const due = Math.min(untilMs, ...[...this.#classics.groups.values()].map(classicDueMs));
      this.#nowMs = Math.max(this.#nowMs, due);
      for (const [key, g] of this.#classics.groups) {
        if (classicDueMs(g) > this.#nowMs) continue;
        this.#say(`${this.#nowMs}: ${g.group} looked at`);
        if (!this.#step(g.group, (step) => timePassed(step, g))) this.#classics.groups.delete(key);
      }
      if (due >= untilMs) return;
    }
  }
  #decided(records: readonly GroupRecord[], then: () => void): void {
    if (records.length === 0) return then();
    this.#waiting.push({ records, then });
  }
  #append(): void {
    for (const { records, then } of this.#waiting.splice(0)) {
      for (const record of records) {
        const { key, value } = encodeGroupRecord(record);
        this.#log.push({ key, value });
        this.#say(`stored ${showRecord(record)}`);
        replay(this.#state, this.#log.length - 1, decodeGroupRecord(key, value));
      }
      then();
    }
  }
  /** Another coordinator: from a snapshot, and once more from the log alone; both must come to the same. */
  #takeover(): void {
    this.#waiting = [];
    const again = createShardState();
    this.#log.forEach(({ key, value }, at) => replay(again, at, decodeGroupRecord(key, value)));
    this.#state = decodeShardSnapshot(encodeShardSnapshot(this.#state, 1, crc32c), 1, crc32c);
    if (JSON.stringify(show(again)) !== JSON.stringify(show(this.#state))) throw new Error("the log and the snapshot differ");
    this.#classics = createClassics(this.#config);
    for (const [key, group] of this.#state.groups) {
      if (group.members?.kind !== "classic") continue;
      this.#classics.groups.set(key, restoreClassic(group, group.members, this.#now().now));
    }
    this.#say(`${this.#state.groups.size} groups, ${this.#state.offsetCount} offsets`);
  }
  #describe(group: string): void {
    const g = describeGroup(this.#state, this.#classics, { tenant, group });
    if (g === undefined) return this.#say("no such group");
    this.#say(`${g.kind} ${g.state} ${g.protocol || "-"} epoch ${g.groupEpoch}/${g.assignmentEpoch}`);
    for (const m of g.members) {
      const what =
        g.kind === "classic" ? text.decode(m.assignment) || "nothing" : `${showAssignment(m.assigned)} of ${showAssignment(m.target)}`;
      this.#say(`  ${m.memberId}${m.instanceId === "" ? "" : `(${m.instanceId})`} ${m.memberEpoch}: ${what}`);
    }
  }
  #say(line: string): void {
    this.lines.push(line);
  }
}

const byKey = <V>(m: ReadonlyMap<string, V>): [string, V][] => [...m].sort(([a], [b]) => (a < b ? -1 : 1));
const show = (state: ShardState): unknown =>
  [...state.groups]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, g]) => [
      key,
      [...g.offsets.keys()].sort(),
      g.members?.kind === "consumer" ? { ...g.members, members: byKey(g.members.members), owners: byKey(g.members.owners) } : g.members,
    ]);
const patternOf = (topics: string): string =>
  topics
    .split(",")
    .find((t) => t.startsWith("/"))
    ?.slice(1) ?? "";
function parseAssignment(s: string): Assignment {
  const sets = new Map<string, number[]>();
  for (const part of s.split(";").filter((p) => p !== "")) {
    const [topic = "", list = ""] = part.split("/");
    sets.set(topic, list.split(",").map(Number));
  }
  return toAssignment(sets);
}
const showAssignment = (a: Assignment): string =>
  a.length === 0 ? "nothing" : a.map(({ topicId, partitions }) => `${topicId}/${partitions.join(",")}`).join(";");
function showRecord(record: GroupRecord): string {
  switch (record.kind) {
    case "owner":
      return `owner ${record.member}`;
    case "offset":
      return `${record.key.group} ${record.key.topicId}/${record.key.partition} = ${record.value?.offset ?? "removed"}`;
    case "classic":
      return `${record.key.group} generation ${record.value.generation}: ${record.value.members.map((m) => `${m.memberId}=${text.decode(m.assignment)}`).join(" ") || "nobody"}`;
    case "consumer":
      return `${record.key.group} epoch ${record.value.epoch}/${record.value.targetEpoch}`;
    case "member": {
      const m = record.value;
      if (m === undefined) return `${record.key.memberId} removed`;
      const back = m.revoking.length === 0 ? "" : ` gives back ${showAssignment(m.revoking)}`;
      return `${record.key.memberId} ${m.memberEpoch} ${m.phase}: ${showAssignment(m.assigned)} of ${showAssignment(m.target)}${back}`;
    }
    case "gone":
      return `${record.key.group} gone`;
  }
}

import { groupKey } from "./state.ts";
import {
  metadataOf,
  toRecord,
  touch,
  waits,
  type Classic,
  type ClassicEffect,
  type Classics,
  type JoinReply,
  type Member,
  type Now,
  type Refusal,
  type Storing,
  type SyncReply,
} from "./classic-state.ts";

const GENERATION_MAX = 0x7fff_ffff;
const NONE = new Uint8Array(0);

/** One step's view: the groups, the time, and what has to be done. */
export interface ClassicStep {
  readonly all: Classics;
  readonly now: Now;
  readonly effects: ClassicEffect[];
}

export const joinRefusal = (memberId: string, refusal: Refusal): JoinReply => ({
  ...refusal,
  generation: -1,
  protocolType: "",
  protocol: "",
  leader: "",
  skipAssignment: false,
  memberId,
  members: [],
});
export const syncRefusal = (refusal: Refusal): SyncReply => ({ ...refusal, protocolType: "", protocol: "", assignment: NONE });

/** The current generation as a member is told it; the leader also gets the list. */
export function joinReply(g: Classic, m: Member): JoinReply {
  const leads = g.leader === m.id;
  return {
    code: undefined,
    generation: g.generation,
    protocolType: g.protocolType,
    protocol: g.protocol,
    leader: g.leader,
    skipAssignment: false,
    memberId: m.id,
    members: leads ? currentMembers(g) : [],
  };
}
export const currentMembers = (g: Classic): JoinReply["members"] =>
  [...g.members.values()].map((m) => ({ memberId: m.id, instanceId: m.instanceId, metadata: metadataOf(m, g.protocol) }));

export function answerJoin({ effects }: ClassicStep, m: Member, reply: JoinReply): void {
  const ticket = m.joinTicket;
  m.joinTicket = undefined;
  m.joined = false;
  if (ticket !== undefined) effects.push({ kind: "joined", ticket, reply });
}
export function answerSync({ effects }: ClassicStep, m: Member, reply: SyncReply): void {
  const ticket = m.syncTicket;
  m.syncTicket = undefined;
  if (ticket !== undefined) effects.push({ kind: "synced", ticket, reply });
}

const maxRebalanceMs = (g: Classic): number => Math.max(0, ...[...g.members.values()].map((m) => m.rebalanceTimeoutMs));

/** Begins a new generation, unless one is being prepared already, and completes it when everybody is there. */
export function prepareRebalance(step: ClassicStep, g: Classic): void {
  const { all, now } = step;
  if (g.phase !== "preparing") {
    if (g.phase === "completing") takeBackAssignment(step, g, { code: "REBALANCE_IN_PROGRESS" });
    callOffStore(step, g);
    g.syncEndsMs = Infinity;
    const rebalanceMs = maxRebalanceMs(g);
    const delayMs = all.config.initialRebalanceDelayMs;
    const isFirst = g.phase === "empty";
    g.initial = isFirst && delayMs > 0 ? { leftMs: Math.max(0, rebalanceMs - delayMs), sawNew: false } : undefined;
    g.joinEndsMs = now.monotonicMs + (g.initial === undefined ? rebalanceMs : Math.min(delayMs, rebalanceMs));
    g.phase = "preparing";
  }
  tryCompleteJoin(step, g);
}

function callOffStore({ effects }: ClassicStep, g: Classic): void {
  const { storing } = g;
  g.storing = undefined;
  if (storing?.kind !== "replacement") return;
  effects.push({ kind: "joined", ticket: storing.ticket, reply: joinRefusal(storing.reply.memberId, { code: "REBALANCE_IN_PROGRESS" }) });
}

function takeBackAssignment(step: ClassicStep, g: Classic, refusal: Refusal): void {
  for (const m of g.members.values()) {
    m.assignment = NONE;
    if (m.syncTicket !== undefined) touch(m, step.now);
    answerSync(step, m, syncRefusal(refusal));
  }
}

export function tryCompleteJoin(step: ClassicStep, g: Classic): void {
  if (g.phase !== "preparing" || g.initial !== undefined || g.pending.size > 0) return;
  for (const m of g.members.values()) if (!m.joined) return;
  completeJoin(step, g);
}

/** The time to join is over. */
export function joinTimeOver(step: ClassicStep, g: Classic): void {
  const { all, now } = step;
  if (g.initial !== undefined) {
    const { leftMs, sawNew } = g.initial;
    const moreMs = Math.min(all.config.initialRebalanceDelayMs, leftMs);
    if (sawNew && moreMs > 0) {
      g.initial = { leftMs: leftMs - moreMs, sawNew: false };
      g.joinEndsMs = now.monotonicMs + moreMs;
      return;
    }
    g.initial = undefined;
  }
  completeJoin(step, g);
}

/** Dynamic members that did not come are out; static ones stay as long as their session lasts. */
function completeJoin(step: ClassicStep, g: Classic): void {
  const { now } = step;
  for (const m of g.members.values()) if (!m.joined && m.instanceId === "") forget(step, g, m);
  if (g.members.get(g.leader)?.joined !== true) {
    const joined = [...g.members.values()].find((m) => m.joined);
    if (joined !== undefined) g.leader = joined.id;
    else if (g.members.size > 0) {
      // Only static members, and none of them is there: nobody could lead.
      g.joinEndsMs = now.monotonicMs + maxRebalanceMs(g);
      return;
    }
  }
  g.generation = g.generation >= GENERATION_MAX ? 1 : g.generation + 1;
  if (g.members.size === 0) return becomeEmpty(step, g);
  g.protocol = selectProtocol(g);
  g.phase = "completing";
  g.syncEndsMs = now.monotonicMs + maxRebalanceMs(g);
  for (const m of g.members.values()) {
    m.synced = false;
    if (!m.joined) continue;
    touch(m, now);
    answerJoin(step, m, joinReply(g, m));
  }
}

function becomeEmpty(step: ClassicStep, g: Classic): void {
  g.phase = "empty";
  g.protocol = "";
  g.leader = "";
  g.syncEndsMs = Infinity;
  g.emptySinceMs = step.now.wallMs;
  store(step, g, undefined);
}

/** Sends the group to the log; what follows is kept until it is there. */
export function store(step: ClassicStep, g: Classic, then: ((token: number) => Storing) | undefined, value = toRecord(g)): void {
  const token = step.all.nextToken++;
  g.storeToken = token;
  if (then !== undefined) g.storing = then(token);
  step.effects.push({ kind: "store", token, key: { tenant: g.tenant, group: g.group }, value });
}

/** Each member votes for the first of its protocols that all of them have. */
export function selectProtocol(g: Classic): string {
  const counts = new Map<string, number>();
  for (const m of g.members.values())
    for (const name of new Set(m.protocols.map((p) => p.name))) counts.set(name, (counts.get(name) ?? 0) + 1);
  const votes = new Map<string, number>();
  for (const m of g.members.values()) {
    const first = m.protocols.find((p) => counts.get(p.name) === g.members.size);
    if (first !== undefined) votes.set(first.name, (votes.get(first.name) ?? 0) + 1);
  }
  let best = "";
  for (const [name, n] of votes) if (n > (votes.get(best) ?? 0)) best = name;
  return best;
}

/** The member is out; the group goes on without it. */
export function removeMember(step: ClassicStep, g: Classic, m: Member): void {
  forget(step, g, m);
  if (g.phase === "stable" || g.phase === "completing") prepareRebalance(step, g);
  else tryCompleteJoin(step, g);
}
function forget(step: ClassicStep, g: Classic, m: Member): void {
  answerJoin(step, m, joinRefusal(m.id, { code: "UNKNOWN_MEMBER" }));
  answerSync(step, m, syncRefusal({ code: "UNKNOWN_MEMBER" }));
  g.members.delete(m.id);
  if (g.leader === m.id) g.leader = ([...g.members.values()].find((other) => other.joined) ?? [...g.members.values()][0])?.id ?? "";
}

/** Whether the record of that token still says how its group is. */
export const isNewest = (all: Classics, key: string, token: number): boolean => all.groups.get(key)?.storeToken === token;

/** A record is durable and replayed. */
export function stored(step: ClassicStep, key: string, token: number): void {
  const g = step.all.groups.get(key);
  const { storing } = g ?? {};
  if (g === undefined || storing?.token !== token) return;
  g.storing = undefined;
  if (storing.kind === "replacement") {
    step.effects.push({ kind: "joined", ticket: storing.ticket, reply: storing.reply });
    return;
  }
  if (g.phase !== "completing") return;
  g.phase = "stable";
  for (const m of g.members.values()) {
    m.assignment = storing.assignments.get(m.id) ?? NONE;
    if (m.syncTicket === undefined) continue;
    touch(m, step.now);
    answerSync(step, m, { code: undefined, protocolType: g.protocolType, protocol: g.protocol, assignment: m.assignment });
  }
}

/** A record cannot be stored, whoever tries: who waits for it hears why. */
export function storeRefused(step: ClassicStep, key: string, token: number, refusal: Refusal): void {
  const g = step.all.groups.get(key);
  const { storing } = g ?? {};
  if (g === undefined || storing?.token !== token) return;
  g.storing = undefined;
  if (storing.kind === "assignment") return refuseAssignment(step, g, refusal);
  step.effects.push({ kind: "joined", ticket: storing.ticket, reply: joinRefusal(storing.reply.memberId, refusal) });
}

/** The assignment cannot be stored: everybody hears why, and the group begins again. */
export function refuseAssignment(step: ClassicStep, g: Classic, refusal: Refusal): void {
  takeBackAssignment(step, g, refusal);
  prepareRebalance(step, g);
}

/** Sessions, given-out ids, joins and syncs that took too long. Returns false when the group is not worth keeping. */
export function timePassed(step: ClassicStep, g: Classic): boolean {
  const nowMs = step.now.monotonicMs;
  for (const [id, endsMs] of g.pending) if (endsMs <= nowMs) g.pending.delete(id);
  for (const m of g.members.values()) if (!waits(m) && m.sessionEndsMs <= nowMs) removeMember(step, g, m);
  if (g.phase === "preparing" && g.joinEndsMs <= nowMs) joinTimeOver(step, g);
  if ((g.phase === "completing" || g.phase === "stable") && g.syncEndsMs <= nowMs) syncTimeOver(step, g);
  tryCompleteJoin(step, g);
  return g.members.size > 0 || g.pending.size > 0 || g.phase !== "empty" || g.generation > 0;
}
function syncTimeOver(step: ClassicStep, g: Classic): void {
  g.syncEndsMs = Infinity;
  const late = [...g.members.values()].filter((m) => !m.synced);
  for (const m of late) forget(step, g, m);
  if (late.length > 0) prepareRebalance(step, g);
}

export const classicOf = (all: Classics, tenant: string, group: string): Classic | undefined => all.groups.get(groupKey(tenant, group));

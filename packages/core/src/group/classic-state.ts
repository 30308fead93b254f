import type { ErrorCode } from "../model/index.ts";
import type { GroupConfig } from "./config.ts";
import type { ClassicGroup } from "./membership.ts";
import type { GroupName } from "./record.ts";

/**
 * A classic group in the memory of its coordinator:
 *
 *            join                 all joined, or the time is over            the leader's assignment is stored
 *   empty ─────────► preparing ──────────────────────────────► completing ──────────────────────────────► stable
 *     ▲                │  ▲                                        │                                        │
 *     └─ nobody left ──┘  └───────────── somebody joins, leaves, changes or is silent too long ─────────────┘
 *
 * A generation that is being agreed on lives here alone. Its result is stored (kind 3 of record.ts), and answers to SyncGroup wait for that.
 */
export type ClassicPhase = "empty" | "preparing" | "completing" | "stable";

export interface Protocol {
  readonly name: string;
  readonly metadata: Uint8Array;
}
/** Names a request that waits for its answer. */
export type Ticket = number;

export interface Member {
  /** A static member that comes back gets a new one. */
  id: string;
  /** "" = dynamic. */
  readonly instanceId: string;
  clientId: string;
  clientHost: string;
  sessionTimeoutMs: number;
  rebalanceTimeoutMs: number;
  /** In order of preference. */
  protocols: readonly Protocol[];
  assignment: Uint8Array;
  /** Takes part in the generation that is being prepared, whether or not its request still waits. */
  joined: boolean;
  joinTicket: Ticket | undefined;
  /** Has asked for its assignment in this generation. */
  synced: boolean;
  syncTicket: Ticket | undefined;
  /** Out when silent until then; not counted while it waits for an answer. */
  sessionEndsMs: number;
}
export interface Classic extends GroupName {
  phase: ClassicPhase;
  protocolType: string;
  generation: number;
  protocol: string;
  leader: string;
  emptySinceMs: number;
  readonly members: Map<string, Member>;
  /** Ids that were given out and have not joined, each with the end of its time. */
  readonly pending: Map<string, number>;
  /** End of the time to join. */
  joinEndsMs: number;
  /** First generation after none: how much longer the group may wait for more members, and whether one came since it last looked. */
  initial: { leftMs: number; sawNew: boolean } | undefined;
  /** Who has not asked for its assignment until then is out. */
  syncEndsMs: number;
  /** Of the last record that went to the log, 0 = none: older ones on their way there are out of date. */
  storeToken: number;
  /** The store that the group waits for. */
  storing: Storing | undefined;
}
/** What is done once a record is stored. */
export type Storing =
  | { readonly kind: "assignment"; readonly token: number; readonly assignments: ReadonlyMap<string, Uint8Array> }
  | { readonly kind: "replacement"; readonly token: number; readonly ticket: Ticket; readonly reply: JoinReply };

export interface Refusal {
  readonly code: ErrorCode | undefined;
  readonly message?: string;
}
export interface JoinReply extends Refusal {
  /** -1 when there is none. */
  readonly generation: number;
  readonly protocolType: string;
  readonly protocol: string;
  readonly leader: string;
  readonly skipAssignment: boolean;
  readonly memberId: string;
  /** For the leader: who is there, with its metadata for the protocol. */
  readonly members: readonly { readonly memberId: string; readonly instanceId: string; readonly metadata: Uint8Array }[];
}
export interface SyncReply extends Refusal {
  readonly protocolType: string;
  readonly protocol: string;
  readonly assignment: Uint8Array;
}
export interface LeaveReply extends Refusal {
  readonly members: readonly { readonly memberId: string; readonly instanceId: string; readonly code: ErrorCode | undefined }[];
}
/**
 *   reply   to the request of that ticket
 *   store   the record goes to the log, unless it is no more the newest of its group by then (`isNewest`); `stored` with the token follows once
 *           it is durable and replayed, `storeRefused` when no attempt can store it
 */
export type ClassicEffect =
  | { readonly kind: "joined"; readonly ticket: Ticket; readonly reply: JoinReply }
  | { readonly kind: "synced"; readonly ticket: Ticket; readonly reply: SyncReply }
  | { readonly kind: "store"; readonly token: number; readonly key: GroupName; readonly value: ClassicGroup };

/** All classic groups of a shard, and what a step works with. */
export interface Classics {
  readonly config: GroupConfig;
  /** By `<tenant>/<group>`. */
  readonly groups: Map<string, Classic>;
  nextToken: number;
}
export const createClassics = (config: GroupConfig): Classics => ({ config, groups: new Map(), nextToken: 1 });

/** Monotonic time for everything that ends, wall time for what is stored. */
export interface Now {
  readonly monotonicMs: number;
  readonly wallMs: number;
}

export const createClassic = ({ tenant, group }: GroupName, now: Now): Classic => ({
  tenant,
  group,
  phase: "empty",
  protocolType: "",
  generation: 0,
  protocol: "",
  leader: "",
  emptySinceMs: now.wallMs,
  members: new Map(),
  pending: new Map(),
  joinEndsMs: 0,
  initial: undefined,
  syncEndsMs: Infinity,
  storeToken: 0,
  storing: undefined,
});

/** The group as its record left it: members get a fresh session. */
export function restoreClassic(name: GroupName, stored: ClassicGroup, now: Now): Classic {
  const g = createClassic(name, now);
  g.phase = stored.members.length === 0 ? "empty" : "stable";
  g.protocolType = stored.protocolType;
  g.generation = stored.generation;
  g.protocol = stored.protocol;
  g.leader = stored.leader;
  g.emptySinceMs = stored.emptySinceMs;
  for (const m of stored.members) {
    g.members.set(m.memberId, {
      id: m.memberId,
      instanceId: m.instanceId,
      clientId: m.clientId,
      clientHost: m.clientHost,
      sessionTimeoutMs: m.sessionTimeoutMs,
      rebalanceTimeoutMs: m.rebalanceTimeoutMs,
      protocols: [{ name: stored.protocol, metadata: m.metadata }],
      assignment: m.assignment,
      joined: false,
      joinTicket: undefined,
      synced: true,
      syncTicket: undefined,
      sessionEndsMs: now.monotonicMs + m.sessionTimeoutMs,
    });
  }
  return g;
}

const NONE = new Uint8Array(0);
export const metadataOf = (m: Member, protocol: string): Uint8Array => m.protocols.find((p) => p.name === protocol)?.metadata ?? NONE;

/** The record of the group as it is, with `assignments` in place of those that the members have. */
export const toRecord = (g: Classic, assignments?: ReadonlyMap<string, Uint8Array>): ClassicGroup => ({
  kind: "classic",
  protocolType: g.protocolType,
  generation: g.generation,
  protocol: g.protocol,
  leader: g.leader,
  emptySinceMs: g.members.size === 0 ? g.emptySinceMs : -1,
  members: [...g.members.values()].map((m) => ({
    memberId: m.id,
    instanceId: m.instanceId,
    clientId: m.clientId,
    clientHost: m.clientHost,
    sessionTimeoutMs: m.sessionTimeoutMs,
    rebalanceTimeoutMs: m.rebalanceTimeoutMs,
    metadata: metadataOf(m, g.protocol),
    assignment: assignments === undefined ? m.assignment : (assignments.get(m.id) ?? NONE),
  })),
});

export const waits = (m: Member): boolean => m.joined || m.syncTicket !== undefined;
export const touch = (m: Member, now: Now): void => void (m.sessionEndsMs = now.monotonicMs + m.sessionTimeoutMs);

/** When `timePassed` has something to do at the earliest; Infinity = never. Monotonic ms. */
export function classicDueMs(g: Classic): number {
  let due = g.phase === "preparing" ? g.joinEndsMs : g.syncEndsMs;
  for (const m of g.members.values()) if (!waits(m) && m.sessionEndsMs < due) due = m.sessionEndsMs;
  for (const endsMs of g.pending.values()) if (endsMs < due) due = endsMs;
  return due;
}

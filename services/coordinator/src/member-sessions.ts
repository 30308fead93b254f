import type { ConsumerGroup, ConsumerMember } from "@sluice/core/group";

interface Session {
  endsMs: number;
  /** End of the time to give partitions back; Infinity = nothing to give back. */
  revokeEndsMs: number;
}

/** Who is heard of in groups that the server assigns. Lives in memory alone: whoever takes the shard gives everybody a fresh session. */
export class MemberSessions {
  readonly #groups = new Map<string, Map<string, Session>>();

  /** The member was heard, or begins. Returns when its group must be looked at. Monotonic ms. */
  touch(key: string, memberId: string, m: ConsumerMember, nowMs: number, sessionMs: number): number {
    let group = this.#groups.get(key);
    if (group === undefined) this.#groups.set(key, (group = new Map()));
    const before = group.get(memberId)?.revokeEndsMs ?? Infinity;
    const revokeEndsMs = m.phase !== "unrevoked" ? Infinity : Math.min(before, nowMs + m.rebalanceTimeoutMs);
    const session = { endsMs: nowMs + sessionMs, revokeEndsMs };
    group.set(memberId, session);
    return Math.min(session.endsMs, revokeEndsMs);
  }
  extend(key: string, byMs: number): void {
    for (const session of this.#groups.get(key)?.values() ?? []) {
      session.endsMs += byMs;
      session.revokeEndsMs += byMs;
    }
  }
  /** Members whose time is over. */
  over(key: string, nowMs: number): string[] {
    return [...(this.#groups.get(key) ?? [])].filter(([, s]) => Math.min(s.endsMs, s.revokeEndsMs) <= nowMs).map(([id]) => id);
  }
  /** Forgets whoever is no longer in the group; returns when it must be looked at next. */
  prune(key: string, group: ConsumerGroup | undefined): number {
    const sessions = this.#groups.get(key);
    let dueMs = Infinity;
    for (const [id, s] of sessions ?? []) {
      if (group?.members.has(id) !== true) sessions?.delete(id);
      else dueMs = Math.min(dueMs, s.endsMs, s.revokeEndsMs);
    }
    if (sessions?.size === 0) this.#groups.delete(key);
    return dueMs;
  }
  forget(key: string): void {
    this.#groups.delete(key);
  }
}

import type { InstanceId, MemberId, ServiceKind } from "../model/index.ts";

/**
 * Who is alive, as the controller sees it. Only speed hangs on it: a wrong DEAD costs a takeover, never a record.
 *
 *                 heartbeat                                  connection refused (asked after a report or silence)
 *            ┌────────────────┐                        ┌───────────────────────────────────────────────┐
 *            ▼                │                        │                                               ▼
 *   (new) ─► ALIVE ── silent 3 beats, or time-out ─► SUSPECT ── silent `deadAfterMs`, not the majority ─► DEAD ── heartbeat ─► ALIVE
 *            └───────────────── member key gone, or replaced by another instance: forgotten, its partitions are forced
 *
 * - Silence counts only for an instance that was heard at least once by this controller; else its lease decides.
 * - A paused process still accepts connections: an open connection proves nothing, a refused one does.
 * - When more than half of those ever heard are silent, the fault is more likely here: leases decide.
 * - A timer of this process that fires late is a pause here: everyone gets that time back.
 * - An instance that was heard again after it was found refused has a wrong address: its refusals no longer count while it is heard.
 */
export type PeerState = "ALIVE" | "SUSPECT" | "DEAD";
export type LivenessCause = "heartbeat" | "silent" | "refused" | "timeout" | "connected";
export type ProbeResult = "open" | "refused" | "timeout";

export interface LivenessLimits {
  /** Silence that makes a peer suspect. */
  readonly suspectAfterMs: number;
  /** Silence after which a peer that cannot be asked is taken for dead. */
  readonly deadAfterMs: number;
  /** Ticks are expected this often. */
  readonly tickMs: number;
  /** A tick this much later than expected is a pause here. */
  readonly tickLateToleranceMs: number;
  /** A suspect peer is asked again this often. */
  readonly probeAgainMs: number;
}
export interface Peer {
  readonly instance: InstanceId;
  readonly service: ServiceKind;
  readonly id: MemberId;
  readonly state: PeerState;
  readonly heard: boolean;
}
export type LivenessInput =
  | { readonly kind: "registered"; readonly instance: InstanceId; readonly service: ServiceKind; readonly id: MemberId }
  | { readonly kind: "gone"; readonly instance: InstanceId }
  | { readonly kind: "heartbeat"; readonly instance: InstanceId }
  | { readonly kind: "reported"; readonly instance: InstanceId }
  | { readonly kind: "probed"; readonly instance: InstanceId; readonly result: ProbeResult }
  | { readonly kind: "tick" };
export type LivenessEffect =
  | { readonly kind: "probe"; readonly instance: InstanceId }
  | { readonly kind: "changed"; readonly peer: Peer; readonly from: PeerState; readonly cause: LivenessCause };

interface Entry {
  readonly instance: InstanceId;
  readonly service: ServiceKind;
  readonly id: MemberId;
  state: PeerState;
  heard: boolean;
  lastHeardMs: number;
  probing: boolean;
  /** When the probe under way, or the last one, began. */
  probedAtMs: number;
  refusedOnce: boolean;
  distrustRefusals: boolean;
}

/** Times are monotonic milliseconds, given with each input. */
export class Liveness {
  readonly #limits: LivenessLimits;
  readonly #peers = new Map<InstanceId, Entry>();
  #lastTickMs: number | undefined;

  constructor(limits: LivenessLimits) {
    this.#limits = limits;
  }
  peer(instance: InstanceId): Peer | undefined {
    return this.#peers.get(instance);
  }
  *peers(): IterableIterator<Peer> {
    yield* this.#peers.values();
  }

  step(input: LivenessInput, nowMs: number): LivenessEffect[] {
    if (input.kind === "tick") return this.#tick(nowMs);
    if (input.kind === "registered") {
      if (!this.#peers.has(input.instance)) this.#peers.set(input.instance, newEntry(input, nowMs));
      return [];
    }
    const peer = this.#peers.get(input.instance);
    if (peer === undefined) return [];
    switch (input.kind) {
      case "gone":
        this.#peers.delete(input.instance);
        return [];
      case "heartbeat":
        return this.#heartbeat(peer, nowMs);
      case "reported":
        return peer.state === "DEAD" ? [] : this.#probe(peer, nowMs);
      case "probed":
        return this.#probed(peer, input.result);
    }
  }

  #heartbeat(peer: Entry, nowMs: number): LivenessEffect[] {
    peer.heard = true;
    peer.lastHeardMs = nowMs;
    if (peer.state === "ALIVE") return [];
    if (peer.refusedOnce) peer.distrustRefusals = true;
    return [this.#enter(peer, "ALIVE", "heartbeat")];
  }
  #probe(peer: Entry, nowMs: number): LivenessEffect[] {
    if (peer.probing) return [];
    peer.probing = true;
    peer.probedAtMs = nowMs;
    return [{ kind: "probe", instance: peer.instance }];
  }
  #probed(peer: Entry, result: ProbeResult): LivenessEffect[] {
    peer.probing = false;
    if (peer.state === "DEAD") return [];
    if (result === "open") return peer.state === "SUSPECT" && !peer.heard ? [this.#enter(peer, "ALIVE", "connected")] : [];
    if (result === "timeout") {
      const heardSince = peer.heard && peer.lastHeardMs > peer.probedAtMs;
      return peer.state === "ALIVE" && !heardSince ? [this.#enter(peer, "SUSPECT", "timeout")] : [];
    }
    if (peer.lastHeardMs > peer.probedAtMs && peer.heard) return [];
    if (peer.distrustRefusals && peer.state === "ALIVE") return [];
    peer.refusedOnce = true;
    return [this.#enter(peer, "DEAD", "refused")];
  }

  #tick(nowMs: number): LivenessEffect[] {
    const { suspectAfterMs, deadAfterMs, tickMs, tickLateToleranceMs, probeAgainMs } = this.#limits;
    const lateMs = this.#lastTickMs === undefined ? 0 : nowMs - this.#lastTickMs - tickMs;
    this.#lastTickMs = nowMs;
    let heard = 0;
    let silent = 0;
    for (const peer of this.#peers.values()) {
      if (!peer.heard) continue;
      if (lateMs > tickLateToleranceMs) peer.lastHeardMs = Math.min(nowMs, peer.lastHeardMs + lateMs);
      heard += 1;
      if (nowMs - peer.lastHeardMs >= suspectAfterMs) silent += 1;
    }
    const isolatedHere = silent * 2 > heard && heard > 1;
    const effects: LivenessEffect[] = [];
    for (const peer of this.#peers.values()) {
      const silenceMs = peer.heard ? nowMs - peer.lastHeardMs : 0;
      if (peer.state === "ALIVE" && silenceMs >= suspectAfterMs) effects.push(this.#enter(peer, "SUSPECT", "silent"));
      if (peer.state !== "SUSPECT") continue;
      if (silenceMs >= deadAfterMs && !isolatedHere) effects.push(this.#enter(peer, "DEAD", "silent"));
      else if (nowMs - peer.probedAtMs >= probeAgainMs) effects.push(...this.#probe(peer, nowMs));
    }
    return effects;
  }

  #enter(peer: Entry, to: PeerState, cause: LivenessCause): LivenessEffect {
    const from = peer.state;
    peer.state = to;
    return {
      kind: "changed",
      peer: { instance: peer.instance, service: peer.service, id: peer.id, state: to, heard: peer.heard },
      from,
      cause,
    };
  }
}

const newEntry = (input: { instance: InstanceId; service: ServiceKind; id: MemberId }, nowMs: number): Entry => ({
  instance: input.instance,
  service: input.service,
  id: input.id,
  state: "ALIVE",
  heard: false,
  lastHeardMs: nowMs,
  probing: false,
  probedAtMs: Number.NEGATIVE_INFINITY,
  refusedOnce: false,
  distrustRefusals: false,
});

import type { ViewChange } from "@sluice/catalog";
import { codeOf, type InstanceId, type MemberId, type MemberRecord, type ServiceKind, serviceKinds } from "@sluice/core/model";
import { Liveness, type LivenessEffect, type LivenessInput, type PlacementBroker } from "@sluice/core/placement";
import type { Timer } from "@sluice/runtime";
import type { Duty } from "./duty.ts";
import { livenessLimits } from "./limits.ts";

export interface Load {
  readonly appendBytesPerSecond: number;
  readonly openPartitions: number;
  readonly capacityBytes: number;
  readonly freeBytes: number;
}

/**
 * Members of the cluster during one term: feeds the pure liveness rules with view changes, heartbeats, reports and time, performs the
 * probes they ask for, and remembers loads and drains. Nothing here is persisted: a new leader learns it within some heartbeats.
 */
export class Members {
  readonly #duty: Duty;
  readonly #liveness: Liveness;
  readonly #loads = new Map<InstanceId, Load>();
  readonly #drains = new Set<InstanceId>();
  readonly #changed: () => void;
  #timer: Timer | undefined;
  #unsubscribe: (() => void) | undefined;
  #brokersChangedAtMs: number;

  /** `changed` is called when somebody's state changed. */
  constructor(duty: Duty, changed: () => void) {
    this.#duty = duty;
    this.#changed = changed;
    this.#liveness = new Liveness(livenessLimits(duty.timers));
    this.#brokersChangedAtMs = duty.clock.monotonicMs();
  }
  start(): void {
    const { view } = this.#duty;
    for (const { record } of view.members.values()) this.#register(record);
    this.#unsubscribe = view.onChange((changes) => this.#onChange(changes));
    this.#tick();
  }
  stop(): void {
    this.#timer?.cancel();
    this.#unsubscribe?.();
  }

  heartbeat(instance: InstanceId, load: Load): void {
    if (this.#liveness.peer(instance) === undefined) return;
    this.#loads.set(instance, load);
    this.#feed({ kind: "heartbeat", instance });
  }
  /** A peer saw a reset or an exit. Instances that are not registered are ignored: their partitions are forced already. */
  reported(instance: InstanceId): void {
    this.#feed({ kind: "reported", instance });
  }
  /** Returns false for an instance that is not registered. */
  drain(instance: InstanceId): boolean {
    const peer = this.#liveness.peer(instance);
    if (peer === undefined) return false;
    if (this.#drains.has(instance)) return true;
    this.#drains.add(instance);
    this.#duty.logger.info("member drains", { memberService: peer.service, member: peer.id, instance });
    this.#changed();
    return true;
  }

  /** True for an instance that has a key and is not taken for dead. */
  lives(instance: InstanceId): boolean {
    const peer = this.#liveness.peer(instance);
    return peer !== undefined && peer.state !== "DEAD";
  }
  draining(member: MemberRecord): boolean {
    return member.draining || this.#drains.has(member.instance);
  }
  load(instance: InstanceId): Load | undefined {
    return this.#loads.get(instance);
  }
  /** Those that can serve, with what placement wants to know of them. */
  brokers(): PlacementBroker[] {
    const out: PlacementBroker[] = [];
    for (const member of this.#duty.view.membersOf("broker")) {
      const peer = this.#liveness.peer(member.instance);
      if (peer === undefined || peer.state === "DEAD") continue;
      const state = this.draining(member) ? "DRAINING" : peer.state === "SUSPECT" ? "SUSPECT" : "OPEN";
      const appendBytesPerSecond = this.#loads.get(member.instance)?.appendBytesPerSecond ?? 0;
      out.push({ id: member.id, zone: member.zone, state, appendBytesPerSecond });
    }
    return out;
  }
  /** Brokers have neither come nor gone for a while. */
  brokersQuietMs(): number {
    return this.#duty.clock.monotonicMs() - this.#brokersChangedAtMs;
  }
  /** Storage nodes that new segments should avoid now. */
  suspectStores(): MemberId[] {
    const out = new Set<MemberId>();
    for (const peer of this.#liveness.peers()) if (peer.service === "segment-store" && peer.state !== "ALIVE") out.add(peer.id);
    for (const member of this.#duty.view.membersOf("segment-store")) if (this.draining(member)) out.add(member.id);
    return [...out].sort();
  }
  state(instance: InstanceId): "ALIVE" | "SUSPECT" | "DEAD" | undefined {
    return this.#liveness.peer(instance)?.state;
  }
  publish(): void {
    const { metrics, view } = this.#duty;
    const suspects = new Map<ServiceKind, number>();
    for (const peer of this.#liveness.peers())
      if (peer.state !== "ALIVE") suspects.set(peer.service, (suspects.get(peer.service) ?? 0) + 1);
    metrics.storesFull.set(view.membersOf("segment-store").filter((store) => store.diskFull === true).length);
    for (const service of serviceKinds) {
      metrics.members.labels(service).set(view.membersOf(service).length);
      metrics.suspects.labels(service).set(suspects.get(service) ?? 0);
    }
  }

  #tick(): void {
    this.#feed({ kind: "tick" });
    this.#timer = this.#duty.clock.setTimer(this.#duty.timers.heartbeatIntervalMs, () => this.#tick());
  }
  #onChange(changes: readonly ViewChange[]): void {
    for (const change of changes) {
      if (change.kind !== "member") continue;
      const { before, after } = change;
      if (before !== undefined && before.instance !== after?.instance) this.#forget(before, after === undefined ? "left" : "replaced");
      if (after !== undefined && before?.instance !== after.instance) this.#register(after);
    }
  }
  #register(member: MemberRecord): void {
    const { logger, clock } = this.#duty;
    logger.info("member joined", { memberService: member.service, member: member.id, instance: member.instance, zone: member.zone });
    if (member.service === "broker") this.#brokersChangedAtMs = clock.monotonicMs();
    this.#feed({ kind: "registered", instance: member.instance, service: member.service, id: member.id });
    this.#changed();
  }
  #forget(member: MemberRecord, cause: string): void {
    const { logger, clock } = this.#duty;
    logger.info("member gone", { memberService: member.service, member: member.id, instance: member.instance, cause });
    if (member.service === "broker") this.#brokersChangedAtMs = clock.monotonicMs();
    this.#feed({ kind: "gone", instance: member.instance });
    this.#loads.delete(member.instance);
    this.#drains.delete(member.instance);
    this.#changed();
  }

  #feed(input: LivenessInput): void {
    const effects = this.#liveness.step(input, this.#duty.clock.monotonicMs());
    for (const effect of effects) this.#perform(effect);
  }
  #perform(effect: LivenessEffect): void {
    const { logger, clock } = this.#duty;
    if (effect.kind === "probe") {
      void this.#probe(effect.instance);
      return;
    }
    const { peer, from, cause } = effect;
    logger.info("member state", { memberService: peer.service, member: peer.id, instance: peer.instance, from, to: peer.state, cause });
    if (peer.service === "broker" && (peer.state === "DEAD" || from === "DEAD")) this.#brokersChangedAtMs = clock.monotonicMs();
    this.#changed();
  }
  /** Asks the data link first: it is what a reset was seen on; then the control listener. */
  async #probe(instance: InstanceId): Promise<void> {
    const { view, peers, timers, metrics, logger, leadership } = this.#duty;
    const peer = this.#liveness.peer(instance);
    const member = peer && view.member(peer.service, peer.id);
    const address = member?.endpoints.link ?? member?.endpoints.rpc ?? member?.endpoints.grpc;
    let result: "open" | "refused" | "timeout" = "open";
    if (address !== undefined && member?.instance === instance) {
      result = await peers.probe(address, timers.linkConnectTimeoutMs).catch((error: unknown) => {
        logger.debug("probe failed", { address, code: codeOf(error) });
        return "timeout" as const;
      });
      metrics.probes.labels(result).inc();
    }
    if (!leadership.ended.aborted) this.#feed({ kind: "probed", instance, result });
  }
}

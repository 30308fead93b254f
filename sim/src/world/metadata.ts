import { segmentKey } from "@sluice/core/model";
import type { InstanceId, PartitionState, SegmentRecord } from "@sluice/core/model";
import type { MetaGotInput, MetaTxnEffect, MetaTxnInput } from "@sluice/core/partition";
import type { Process } from "./process.ts";
import type { Rng } from "./random.ts";
import type { Scheduler } from "./scheduler.ts";
import type { Network } from "./network.ts";

export interface MetadataFaults {
  /** A transaction is applied, its answer is lost. */
  readonly appliedLostChance: number;
  /** It never arrives. */
  readonly lostChance: number;
  /** The caller gives up, and it is applied (or fails its compare) up to `lateMs` later. */
  readonly lateChance: number;
  readonly lateMs: number;
}
export const noMetadataFaults: MetadataFaults = { appliedLostChance: 0, lostChance: 0, lateChance: 0, lateMs: 0 };

/**
 * The metadata store as the protocol may assume it: a linearizable register with conditional writes, whose answers can be lost and whose
 * requests can be
 * late. Members' keys live as long as their leases do.
 */
export class Metadata {
  faults: MetadataFaults = noMetadataFaults;
  away = false;
  state: PartitionState | undefined;
  revision = 10;
  modRevision = 0;
  readonly segments = new Map<string, SegmentRecord>();
  logStart = 0;
  /** Broker name to the instance whose member key exists. */
  readonly members = new Map<string, InstanceId>();
  readonly #scheduler: Scheduler;
  readonly #rng: Rng;
  readonly #network: Network;
  readonly #timeoutMs: number;
  /** Called with each transaction that applied, before anybody knows. */
  onApplied: (txn: MetaTxnEffect) => void = () => undefined;

  constructor(scheduler: Scheduler, rng: Rng, network: Network, timeoutMs: number) {
    this.#scheduler = scheduler;
    this.#rng = rng;
    this.#network = network;
    this.#timeoutMs = timeoutMs;
  }

  #reachable(who: string): boolean {
    return !this.away && !this.#network.isCut(who, "metadata");
  }

  get(who: Process, call: number, answer: (input: MetaGotInput) => void): void {
    const back = who.inThisLife(() => answer({ kind: "metaGot", call, outcome: "failed" }));
    if (!this.#reachable(who.name)) return this.#scheduler.after(this.#timeoutMs, back);
    this.#scheduler.after(this.#rng.between(0.5, 2), () => {
      const { state } = this;
      const input: MetaGotInput = {
        kind: "metaGot",
        call,
        outcome: "ok",
        register: { state, modRevision: this.modRevision },
        ownerAlive: state !== undefined && this.members.get(state.owner) === state.ownerInstance,
        logStart: this.logStart,
      };
      this.#scheduler.after(
        this.#rng.between(0.5, 2),
        who.inThisLife(() => answer(input)),
      );
    });
  }

  txn(who: Process, txn: MetaTxnEffect, answer: (input: MetaTxnInput) => void): void {
    const { faults } = this;
    const rng = this.#rng;
    const say = (input: MetaTxnInput, after: number): void =>
      this.#scheduler.after(
        after,
        who.inThisLife(() => answer(input)),
      );
    const unknown: MetaTxnInput = { kind: "metaTxnDone", call: txn.call, outcome: "unknown" };
    if (!this.#reachable(who.name)) {
      if (rng.chance(0.5)) return say({ kind: "metaTxnDone", call: txn.call, outcome: "unavailable" }, rng.between(1, 5));
      return say(unknown, this.#timeoutMs);
    }
    const draw = rng.float();
    const giveUpMs = rng.between(2, this.#timeoutMs);
    if (draw < faults.lostChance) return say(unknown, giveUpMs);
    if (draw < faults.lostChance + faults.appliedLostChance) {
      this.#scheduler.after(rng.between(0.5, 2), () => this.#apply(txn));
      return say(unknown, giveUpMs);
    }
    if (draw < faults.lostChance + faults.appliedLostChance + faults.lateChance) {
      this.#scheduler.after(giveUpMs + rng.between(0, faults.lateMs), () => this.#apply(txn));
      return say(unknown, giveUpMs);
    }
    this.#scheduler.after(rng.between(0.5, 2), () => say(this.#apply(txn), rng.between(0.5, 2)));
  }

  #apply(txn: MetaTxnEffect): MetaTxnInput {
    const holds = txn.expectedRevision === this.modRevision;
    if (holds) {
      this.state = txn.state;
      this.modRevision = ++this.revision;
      for (const s of txn.segments) this.segments.set(segmentKey(s.segment), s);
      this.onApplied(txn);
    }
    const segment = txn.readSegment === undefined ? undefined : this.segments.get(segmentKey(txn.readSegment.segment));
    return {
      kind: "metaTxnDone",
      call: txn.call,
      outcome: holds ? "applied" : "compareFailed",
      register: { state: this.state, modRevision: this.modRevision },
      ...(segment === undefined ? {} : { segment }),
      logStart: this.logStart,
    };
  }
}

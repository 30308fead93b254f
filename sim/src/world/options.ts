import type { ReplicaMutants } from "@sluice/core/replica";
import type { BrokerMutants } from "./broker.ts";
import type { Rng } from "./random.ts";

/** The knobs of one run, all drawn from its seed: a swarm of small, odd clusters finds more than one average one. */
export interface RunOptions {
  readonly chaosMs: number;
  readonly zones: number;
  /** Chance that storage nodes restart just when a fence quorum has answered. */
  readonly fenceRestartChance: number;
  readonly segmentBytes: number;
  readonly segmentMs: number;
  readonly producers: number;
  readonly inFlight: number;
  readonly pauseMs: number;
  readonly flushMs: number;
  readonly stallChance: number;
  readonly reconcileMs: number;
  readonly viewRefreshMs: number;
  readonly dropChance: number;
  readonly duplicateChance: number;
  readonly lateChance: number;
  readonly lateMs: number;
  readonly metadataFaultChance: number;
  readonly metadataLateMs: number;
  /** Mean time between faults, 0 = none of this kind. */
  readonly everyMs: Readonly<Record<FaultKind, number>>;
}
export const faultKinds = [
  "brokerCrash",
  "brokerPause",
  "nodeCrash",
  "powerCut",
  "nodePause",
  "cut",
  "metadataCut",
  "metadataAway",
  "linkReset",
  "move",
  "force",
  "wipe",
  "journalError",
  "powerCutAll",
  "zombie",
  "wipeTakeover",
] as const;
export type FaultKind = (typeof faultKinds)[number];

export function drawOptions(rng: Rng, short: boolean): RunOptions {
  const chaosMs = short ? rng.int(400, 900) : rng.int(800, 2500);
  const everyMs: Record<string, number> = {};
  for (const kind of faultKinds) {
    const rare = kind === "metadataAway" || kind === "powerCutAll" || kind === "journalError" || kind === "wipe";
    everyMs[kind] = rng.chance(rare ? 0.3 : 0.5) ? rng.int(rare ? 300 : 80, 900) : 0;
  }
  const lossy = rng.chance(0.6);
  const late = rng.chance(0.6);
  return {
    chaosMs,
    fenceRestartChance: rng.chance(0.4) ? 0.6 : 0,
    zones: rng.pick([1, 3, 5]),
    segmentBytes: rng.pick([150, 250, 600, 1500, 1_000_000]),
    segmentMs: rng.pick([80, 400, 100_000]),
    producers: rng.int(2, 4),
    inFlight: rng.int(1, 4),
    pauseMs: rng.pick([4, 10, 25]),
    flushMs: rng.pick([0.5, 1.5, 4]),
    stallChance: rng.pick([0, 0.01, 0.05]),
    reconcileMs: rng.pick([20, 60, 300, 1500]),
    viewRefreshMs: rng.pick([20, 200, 800, 2000]),
    dropChance: lossy ? rng.pick([0.002, 0.02, 0.08]) : 0,
    duplicateChance: lossy ? rng.pick([0, 0.02, 0.1]) : 0,
    lateChance: late ? rng.pick([0.01, 0.05, 0.15]) : 0,
    lateMs: rng.pick([5, 50, 200]),
    metadataFaultChance: rng.chance(0.6) ? rng.pick([0.02, 0.1, 0.25]) : 0,
    metadataLateMs: rng.pick([5, 60, 300]),
    everyMs: everyMs as RunOptions["everyMs"],
  };
}

/** Planted faults by name, spread over the two machines. */
export const mutantNames = [
  "M1",
  "M4",
  "M5",
  "M8",
  "M9",
  "M10",
  "M11",
  "M15",
  "M16",
  "M22",
  "M26",
  "M27",
  "M28",
  "M29",
  "M30",
  "M31",
] as const;
const ofReplica = new Set(["M8", "M9", "M16", "M22", "M26", "M27", "M30"]);
export function mutantsOf(name: string | undefined): { broker: BrokerMutants; replica: ReplicaMutants } {
  if (name === undefined) return { broker: {}, replica: {} };
  const on = { [name]: true };
  return ofReplica.has(name) ? { broker: {}, replica: on } : { broker: on, replica: {} };
}

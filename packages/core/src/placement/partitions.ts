import { partitionKey, type MemberId, type PartitionId, type PartitionKey, type TopicId } from "../model/index.ts";

/**
 * Partitions to brokers: a difference between where partitions are and where they should be, as a list of moves.
 *
 *   1. a partition without a broker, or whose broker is gone, gets one at once             (FIRST, LOST; no bound)
 *   2. a broker that drains gives its partitions away                                      (DRAIN; bounded)
 *   3. while one broker has at least two more than another, it gives one away              (BALANCE; bounded)
 *
 * Sticky: nothing moves for any other reason, so a difference of one is left alone and a flapping broker costs what it held.
 * Deterministic: the same input gives the same moves in the same order, whatever the order of its lists.
 */
export interface PlacementBroker {
  readonly id: MemberId;
  readonly zone: string;
  /** SUSPECT keeps what it has and gets nothing while another broker can take it; DRAINING gives everything away. */
  readonly state: "OPEN" | "SUSPECT" | "DRAINING";
  /** Bytes appended in the last second: decides between brokers with equally many partitions. */
  readonly appendBytesPerSecond: number;
}
export interface PlacementPartition {
  readonly id: PartitionId;
  /** Absent before the first assignment. A broker that is not in the list of brokers is gone. */
  readonly assigned: MemberId | undefined;
  /** An earlier planned move has not ended: it counts against the bound, and the partition is not moved again by plan. */
  readonly moving: boolean;
}
export interface PlacementInput {
  /** Those that can serve: no dead ones. */
  readonly brokers: readonly PlacementBroker[];
  readonly partitions: readonly PlacementPartition[];
  /** Planned moves in flight at a time, those that are on their way included. */
  readonly plannedMovesMax: number;
  /** False while membership is settling: a broker that joins and leaves at once should cost nothing. */
  readonly balance: boolean;
}
export type PlacementCause = "FIRST" | "LOST" | "DRAIN" | "BALANCE";
export interface PlacementMove {
  readonly partition: PartitionId;
  readonly from: MemberId | undefined;
  readonly to: MemberId;
  readonly cause: PlacementCause;
}

interface Site {
  readonly broker: PlacementBroker;
  /** In order of partition key. */
  readonly held: Map<PartitionKey, PlacementPartition>;
  readonly perTopic: Map<TopicId, number>;
}

export function placePartitions(input: PlacementInput): PlacementMove[] {
  const sites = new Map<MemberId, Site>();
  for (const broker of input.brokers.toSorted((a, b) => (a.id < b.id ? -1 : 1)))
    sites.set(broker.id, { broker, held: new Map(), perTopic: new Map() });
  const partitions = input.partitions.toSorted(byTopicThenNumber);
  const homeless: PlacementPartition[] = [];
  let inFlight = 0;
  for (const p of partitions) {
    const site = p.assigned === undefined ? undefined : sites.get(p.assigned);
    if (site === undefined) homeless.push(p);
    else {
      add(site, p);
      if (p.moving) inFlight += 1;
    }
  }
  const targets = targetsOf(sites);
  const moves: PlacementMove[] = [];
  if (targets.length === 0) return moves;
  for (const p of homeless) {
    const to = bestFor(p, targets);
    add(to, p);
    moves.push({ partition: p.id, from: p.assigned, to: to.broker.id, cause: p.assigned === undefined ? "FIRST" : "LOST" });
  }
  let budget = Math.max(0, input.plannedMovesMax - inFlight);
  budget = relieve(sites, targets, budget, moves);
  if (input.balance) level(targets, budget, new Set(homeless.map((p) => partitionKey(p.id))), moves);
  return moves;
}

const byTopicThenNumber = (a: PlacementPartition, b: PlacementPartition): number =>
  a.id.topicId < b.id.topicId ? -1 : a.id.topicId > b.id.topicId ? 1 : a.id.partition - b.id.partition;

/** Brokers that may get partitions: the open ones, else the suspect ones, never one that drains. */
function targetsOf(sites: ReadonlyMap<MemberId, Site>): Site[] {
  const all = [...sites.values()];
  const open = all.filter((s) => s.broker.state === "OPEN");
  return open.length > 0 ? open : all.filter((s) => s.broker.state === "SUSPECT");
}

function add(site: Site, p: PlacementPartition): void {
  site.held.set(partitionKey(p.id), p);
  site.perTopic.set(p.id.topicId, (site.perTopic.get(p.id.topicId) ?? 0) + 1);
}
function remove(site: Site, p: PlacementPartition): void {
  site.held.delete(partitionKey(p.id));
  site.perTopic.set(p.id.topicId, (site.perTopic.get(p.id.topicId) ?? 1) - 1);
}
const ofTopic = (site: Site, topic: TopicId): number => site.perTopic.get(topic) ?? 0;

/** Fewest partitions; then fewest of this topic on the broker, then in its zone; then least load; then by id, turned by the partition. */
function bestFor(p: PlacementPartition, targets: readonly Site[]): Site {
  const zones = new Map<string, number>();
  for (const s of targets) zones.set(s.broker.zone, (zones.get(s.broker.zone) ?? 0) + ofTopic(s, p.id.topicId));
  const turn = p.id.partition % targets.length;
  let best = targets[turn] as Site;
  for (let i = 1; i < targets.length; i += 1) {
    const site = targets[(turn + i) % targets.length] as Site;
    const order =
      site.held.size - best.held.size ||
      ofTopic(site, p.id.topicId) - ofTopic(best, p.id.topicId) ||
      (zones.get(site.broker.zone) as number) - (zones.get(best.broker.zone) as number) ||
      site.broker.appendBytesPerSecond - best.broker.appendBytesPerSecond;
    if (order < 0) best = site;
  }
  return best;
}

/** Moves partitions off draining brokers. Returns what is left of the budget. */
function relieve(sites: ReadonlyMap<MemberId, Site>, targets: readonly Site[], budget: number, moves: PlacementMove[]): number {
  let left = budget;
  for (const site of sites.values()) {
    if (site.broker.state !== "DRAINING") continue;
    for (const p of site.held.values()) {
      if (left === 0) return 0;
      if (p.moving) continue;
      const to = bestFor(p, targets);
      remove(site, p);
      add(to, p);
      moves.push({ partition: p.id, from: site.broker.id, to: to.broker.id, cause: "DRAIN" });
      left -= 1;
    }
  }
  return left;
}

function level(targets: readonly Site[], budget: number, fresh: ReadonlySet<PartitionKey>, moves: PlacementMove[]): void {
  const moved = new Set<PartitionKey>(fresh);
  const stuck = new Set<Site>();
  let left = budget;
  while (left > 0) {
    let high: Site | undefined;
    let low: Site | undefined;
    for (const s of targets) {
      if (!stuck.has(s) && (high === undefined || heavier(s, high))) high = s;
      if (low === undefined || heavier(low, s)) low = s;
    }
    if (high === undefined || low === undefined || high.held.size - low.held.size < 2) return;
    const p = pick(high, low, moved);
    if (p === undefined) {
      stuck.add(high);
      continue;
    }
    remove(high, p);
    add(low, p);
    moved.add(partitionKey(p.id));
    moves.push({ partition: p.id, from: high.broker.id, to: low.broker.id, cause: "BALANCE" });
    left -= 1;
  }
}
const heavier = (a: Site, b: Site): boolean =>
  a.held.size !== b.held.size ? a.held.size > b.held.size : a.broker.appendBytesPerSecond > b.broker.appendBytesPerSecond;

/** The partition whose topic is spread worst between the two; never one that is on its way or was just placed. */
function pick(high: Site, low: Site, moved: ReadonlySet<PartitionKey>): PlacementPartition | undefined {
  let best: PlacementPartition | undefined;
  let bestGap = Number.NEGATIVE_INFINITY;
  for (const [key, p] of high.held) {
    if (p.moving || moved.has(key)) continue;
    const gap = ofTopic(high, p.id.topicId) - ofTopic(low, p.id.topicId);
    if (gap > bestGap) {
      best = p;
      bestGap = gap;
    }
  }
  return best;
}

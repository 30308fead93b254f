import { readFileSync } from "node:fs";
import { processCpuMs } from "../measure.ts";
import type { JavaClient } from "./client.ts";

/** One side of the comparison, as the client and the accounting see it. */
export interface Peer {
  readonly name: "sluice" | "kafka" | "kafka, flush per set";
  readonly servers: string;
  readonly replicas: number;
  readonly config: readonly string[];
  /** Its processes by name. */
  readonly processes: ReadonlyMap<string, number>;
  /** Share of the records that a run of it takes: a slow one would take minutes. */
  readonly share: number;
  /** After a topic was deleted: until its space has been given back. */
  settled(): Promise<void>;
}
/** Median of the measured runs with their range. */
export interface Range {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}
export interface Measurement {
  readonly point: string;
  readonly peer: Peer["name"];
  /** MB (10^6 bytes) per second; undefined for a fixed rate. */
  readonly megabytesPerSecond?: Range;
  readonly p50Ms?: Range;
  readonly p99Ms?: Range;
  /** Of all its servers. */
  readonly cpuMsPerMB: Range;
}

const MIB = 1024 * 1024;
const KIB = 1024;
const PARTITIONS = 8;
const LATENCY_PER_SECOND = 1_000;
const LATENCY_SECONDS = 6;

interface Run {
  /** MB of 10^6 bytes per second. */
  readonly rate?: number;
  readonly p50?: number;
  readonly p99?: number;
  readonly cpu: number;
}
export interface Point {
  readonly name: string;
  readonly flushed: boolean;
  run(client: JavaClient, peer: Peer, topic: string, scale: number): Promise<Run>;
}

const records = (peer: Peer, count: number, scale: number): number => Math.max(1_000, Math.round(count * peer.share * scale));
async function counted<T>(peer: Peer, megabytes: number, work: () => Promise<T>): Promise<{ result: T; cpu: number }> {
  const cpu = (): number => [...peer.processes.values()].reduce((sum, pid) => sum + processCpuMs(pid), 0);
  const before = cpu();
  const result = await work();
  return { result, cpu: (cpu() - before) / megabytes };
}
const rateOf = (mebibytesPerSecond: number): number => (mebibytesPerSecond * MIB) / 1e6;

const produce = (name: string, size: number, count: number): Point => ({
  name,
  flushed: true,
  async run(client, peer, topic, scale) {
    const n = records(peer, count, scale);
    const { result, cpu } = await counted(peer, (n * size) / 1e6, () => client.run("produce", peer.servers, topic, n, size));
    const [rate = 0, , p50 = 0, p99 = 0] = result;
    return { rate: rateOf(rate), p50, p99, cpu };
  },
});

/** What is compared; each run has a topic of its own. */
export const points: readonly Point[] = [
  produce("produce 1 KiB", KIB, 200_000),
  produce("produce 100 B", 100, 600_000),
  {
    name: "consume 1 KiB from the tail",
    flushed: false,
    async run(client, peer, topic, scale) {
      const n = records(peer, 200_000, scale);
      const { result, cpu } = await counted(peer, (n * KIB) / 1e6, () => client.run("tail", peer.servers, topic, n, KIB));
      return { rate: rateOf(result[0] as number), cpu };
    },
  },
  {
    name: "consume 1 KiB from the start",
    flushed: false,
    async run(client, peer, topic, scale) {
      const n = records(peer, 200_000, scale);
      await client.run("produce", peer.servers, topic, n, KIB);
      const { result, cpu } = await counted(peer, (n * KIB) / 1e6, () => client.run("consume", peer.servers, topic, n));
      return { rate: rateOf(result[0] as number), cpu };
    },
  },
  {
    name: `end to end at ${LATENCY_PER_SECOND} records of 1 KiB a second`,
    flushed: true,
    async run(client, peer, topic) {
      const megabytes = (LATENCY_PER_SECOND * LATENCY_SECONDS * KIB) / 1e6;
      const { result, cpu } = await counted(peer, megabytes, () =>
        client.run("latency", peer.servers, topic, LATENCY_PER_SECOND, LATENCY_SECONDS, KIB),
      );
      return { p50: result[0] as number, p99: result[1] as number, cpu };
    },
  },
];

/** Runs without a better one after which a peer counts as warm, and how much better is better. */
const WARM_AFTER_RUNS = 3;
const BETTER = 1.05;
/** A peer that still gets faster after so many is measured all the same, and the warm-up says so. */
const WARM_UP_RUNS_MAX = 20;

/**
 * One point on all peers in turn, once each of them is warm. A JVM that has just started spends more on compiling than on the load (on two cores
 * Kafka's rate grows fivefold over the first dozen runs), so a peer is driven until it gets no faster. Each run has a topic of its own, which is deleted, and
 * its space given back, before the next begins.
 */
export async function measurePoint(
  client: JavaClient,
  point: Point,
  peers: readonly Peer[],
  rounds: number,
  scale: number,
): Promise<Measurement[]> {
  const once = async (peer: Peer, round: string): Promise<Run> => {
    const topic = `bench-${point.name.replaceAll(/[^a-z0-9]+/gi, "-")}-${peer.name.length}-${round.replaceAll(" ", "-")}`;
    await client.run("create", peer.servers, topic, PARTITIONS, peer.replicas, ...peer.config);
    const run = await point.run(client, peer, topic, scale);
    await client.run("delete", peer.servers, topic);
    await peer.settled();
    const figures = run.rate === undefined ? `p50 ${run.p50?.toFixed(1)} ms, p99 ${run.p99?.toFixed(1)} ms` : `${run.rate.toFixed(0)} MB/s`;
    process.stderr.write(`${point.name}, ${peer.name}, ${round}: ${figures}, ${run.cpu.toFixed(1)} ms/MB\n`);
    return run;
  };
  const runs = new Map<Peer, Run[]>(peers.map((peer) => [peer, []]));
  for (const peer of peers) await warmUp((run) => once(peer, `warm-up ${run}`));
  for (let round = 1; round <= rounds; round += 1) {
    for (const [peer, all] of runs) all.push(await once(peer, `round ${round}`));
  }
  return [...runs].map(([peer, all]) => ({
    point: point.name,
    peer: peer.name,
    ...optional(
      "megabytesPerSecond",
      all.map((r) => r.rate),
    ),
    ...optional(
      "p50Ms",
      all.map((r) => r.p50),
    ),
    ...optional(
      "p99Ms",
      all.map((r) => r.p99),
    ),
    cpuMsPerMB: rangeOf(all.map((r) => r.cpu)),
  }));
}
async function warmUp(once: (run: number) => Promise<Run>): Promise<void> {
  let best = 0;
  for (let run = 1, bestRun = 0; run - bestRun <= WARM_AFTER_RUNS; run += 1) {
    if (run > WARM_UP_RUNS_MAX) return void process.stderr.write("still getting faster: the figures that follow are not of a warm peer\n");
    const { rate, p99 = 0 } = await once(run);
    const speed = rate ?? 1 / p99;
    if (speed < best * BETTER) continue;
    best = speed;
    bestRun = run;
  }
}
function optional<K extends string>(key: K, values: readonly (number | undefined)[]): { readonly [P in K]?: Range } {
  const known = values.filter((v) => v !== undefined);
  return known.length === 0 ? {} : ({ [key]: rangeOf(known) } as { [P in K]?: Range });
}
export function rangeOf(values: readonly number[]): Range {
  const sorted = [...values].sort((a, b) => a - b);
  return { median: sorted[sorted.length >> 1] as number, min: sorted[0] as number, max: sorted.at(-1) as number };
}

/** Resident memory of each process, MiB. */
export function memoryOf(peer: Peer): Record<string, number> {
  const resident = (pid: number): number => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;
  return Object.fromEntries([...peer.processes].map(([name, pid]) => [name, Math.round(resident(pid))]));
}

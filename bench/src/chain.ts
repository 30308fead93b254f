/**
 * `npm run bench -- chain [--json FILE] [--rounds N] [--seconds S] [--dir DIR] [--points inner-65536,...]`
 *
 * Probe and product in turn, in the same minutes, on the same disk: one broker, three storage nodes with fdatasync, 8 partitions. The figure
 * to quote is the ratio of the medians; bare times mean little on a shared machine.
 */
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomUUID } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, type Admin, type TopicInfo } from "@sluice/client";
import { benchCluster, journalsQuiet, machine, option } from "./common.ts";
import { runInner } from "./inner-load.ts";
import type { ChainResult, ChainSpec } from "./measure.ts";
import { runProbe } from "./probe/probe.ts";
import { runWhole } from "./whole-load.ts";

const MiB = 1024 * 1024;
const PARTITIONS = 8;
const IN_FLIGHT_BYTES = 4 * MiB;

interface Point {
  readonly chain: "inner" | "whole";
  readonly batchBytes: number;
  /** Batches; 0 = 4 MiB of them. */
  readonly inFlight: number;
}
const points: readonly Point[] = (["inner", "whole"] as const).flatMap((chain) => [
  { chain, batchBytes: 4096, inFlight: 0 },
  { chain, batchBytes: 65536, inFlight: 0 },
  { chain, batchBytes: MiB, inFlight: 0 },
  { chain, batchBytes: 4096, inFlight: 1 },
]);
const nameOf = (p: Point): string => `${p.chain}-${p.batchBytes}${p.inFlight === 1 ? "-one" : ""}`;

export interface ChainPoint {
  readonly chain: "inner" | "whole";
  readonly batchBytes: number;
  readonly inFlight: number;
  readonly probeMBps: number;
  readonly sluiceMBps: number;
  readonly ratio: number;
  readonly probeP50Ms: number;
  readonly sluiceP50Ms: number;
  readonly probeP99Ms: number;
  readonly sluiceP99Ms: number;
  readonly cpuMsPerMB: number;
}

/** First load of all, not measured: the journals then have files to write again, as on a node that has run for a while. */
const FILL_MS = 3_000;
/** Each run has a topic of its own, which is deleted, and its space given back, before the next begins. */
async function onFreshTopic(
  admin: Admin,
  metrics: readonly string[],
  run: (topic: TopicInfo) => Promise<ChainResult>,
): Promise<ChainResult> {
  const topic = await admin.createTopic({ name: `bench-${randomUUID()}`, partitions: PARTITIONS });
  const result = await run(topic);
  await admin.deleteTopic(topic.name);
  await journalsQuiet(metrics);
  return result;
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] as number;

export async function chain(args: readonly string[]): Promise<void> {
  const rounds = Number(option(args, "rounds", "5"));
  const measureMs = Number(option(args, "seconds", "3")) * 1000;
  const wanted = option(args, "points", "").split(",").filter(Boolean);
  const dir = mkdtempSync(join(option(args, "dir", tmpdir()), "sluice-bench-"));
  const results: ChainPoint[] = [];
  try {
    await using cluster = await benchCluster(join(dir, "cluster"));
    const { spec } = cluster;
    const endpoint = spec.proxies[0]?.grpc as string;
    const broker = spec.brokers[0];
    const stores = spec.stores.map((s) => s.pid);
    const metrics = spec.stores.map((s) => s.metrics);
    const secret = readFileSync(join(cluster.dir, "secrets/cluster.secret"));
    await using sluice = await connect({ endpoints: [endpoint] });
    const { clusterId, generation } = await sluice.admin.describeCluster();
    for (const point of points) {
      if (wanted.length > 0 && !wanted.includes(nameOf(point))) continue;
      const load: ChainSpec = {
        chain: point.chain,
        batchBytes: point.batchBytes,
        inFlightBytes: point.inFlight === 1 ? point.batchBytes : Math.max(IN_FLIGHT_BYTES, point.batchBytes),
        partitions: PARTITIONS,
        warmUpMs: 1000,
        measureMs,
      };
      const run = (topic: TopicInfo, what: ChainSpec): Promise<ChainResult> =>
        point.chain === "inner"
          ? runInner(what, {
              clusterId,
              secret,
              generation,
              topicId: topic.topicId,
              brokerOf: () => broker?.link as string,
              pids: [broker?.pid as number, ...stores],
            })
          : runWhole(what, { endpoint, topic: topic.name, pids: [spec.proxies[0]?.pid as number, broker?.pid as number, ...stores] });
      const product = (what: ChainSpec = load): Promise<ChainResult> => onFreshTopic(sluice.admin, metrics, (topic) => run(topic, what));
      if (results.length === 0) await product({ ...load, batchBytes: 65536, inFlightBytes: IN_FLIGHT_BYTES, measureMs: FILL_MS });
      const probe: ChainResult[] = [];
      const sluiceRuns: ChainResult[] = [];
      for (let round = 0; round < rounds; round += 1) {
        probe.push(await runProbe(load, dir));
        sluiceRuns.push(await product());
        process.stderr.write(
          `${nameOf(point)} round ${round + 1}: probe ${probe.at(-1)?.megabytesPerSecond.toFixed(0)} MB/s, sluice ${sluiceRuns.at(-1)?.megabytesPerSecond.toFixed(0)} MB/s\n`,
        );
      }
      const of = (runs: readonly ChainResult[], pick: (r: ChainResult) => number): number => median(runs.map(pick));
      const probeMBps = of(probe, (r) => r.megabytesPerSecond);
      const sluiceMBps = of(sluiceRuns, (r) => r.megabytesPerSecond);
      results.push({
        chain: point.chain,
        batchBytes: point.batchBytes,
        inFlight: point.inFlight === 1 ? 1 : Math.floor(load.inFlightBytes / point.batchBytes),
        probeMBps,
        sluiceMBps,
        ratio: sluiceMBps / probeMBps,
        probeP50Ms: of(probe, (r) => r.p50Ms),
        sluiceP50Ms: of(sluiceRuns, (r) => r.p50Ms),
        probeP99Ms: of(probe, (r) => r.p99Ms),
        sluiceP99Ms: of(sluiceRuns, (r) => r.p99Ms),
        cpuMsPerMB: of(sluiceRuns, (r) => r.cpuMsPerMegabyte),
      });
    }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
  print(results);
  const file = option(args, "json", "");
  if (file !== "")
    writeFileSync(
      file,
      `${JSON.stringify({ machine: machine(), date: new Date().toISOString().slice(0, 10), points: results }, null, 2)}\n`,
    );
}

function print(results: readonly ChainPoint[]): void {
  process.stdout.write(`${machine()}\n\n`);
  process.stdout.write("chain  batch    in flight  probe MB/s  sluice MB/s  ratio  probe p50/p99 ms  sluice p50/p99 ms  cpu ms/MB\n");
  for (const r of results) {
    process.stdout.write(
      `${[
        r.chain.padEnd(6),
        String(r.batchBytes).padStart(7),
        String(r.inFlight).padStart(10),
        r.probeMBps.toFixed(1).padStart(11),
        r.sluiceMBps.toFixed(1).padStart(12),
        r.ratio.toFixed(2).padStart(6),
        `${r.probeP50Ms.toFixed(2)}/${r.probeP99Ms.toFixed(2)}`.padStart(17),
        `${r.sluiceP50Ms.toFixed(2)}/${r.sluiceP99Ms.toFixed(2)}`.padStart(18),
        r.cpuMsPerMB.toFixed(1).padStart(10),
      ].join(" ")}\n`,
    );
  }
}

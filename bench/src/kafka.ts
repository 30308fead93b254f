/**
 * `npm run bench -- kafka [--json FILE] [--rounds N] [--scale X] [--dir DIR] [--points "produce 1 KiB,..."]`
 *
 * A real Apache Kafka of three brokers beside Sluice on the same machine, the same Java client driven against both in turn. Kafka keeps three replicas
 * and waits for two, without a flush (its default) and with one per message set (`flush.messages=1`); Sluice syncs always. The figure to quote is the
 * ratio of the medians. Every peer is warm before it is measured (`peers/peers.ts`). Needs Java 17, and Maven the first time.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startKafka } from "@sluice/test-support";
import { benchCluster, deletedLogsGone, journalsQuiet, machine, option } from "./common.ts";
import type { ChainResult, ChainSpec } from "./measure.ts";
import { JavaClient } from "./peers/client.ts";
import { runLight } from "./peers/light-load.ts";
import { measurePoint, memoryOf, points, rangeOf, type Measurement, type Peer } from "./peers/peers.ts";
import { runProbe } from "./probe/probe.ts";

const MiB = 1024 * 1024;
/** What Kafka's own start script gives a broker. */
const KAFKA_JVM = ["-server", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"];
/** What was deleted goes in a second, not in a minute: the disk and the page cache are then free for the next run, as they are for Sluice. */
const KAFKA_PROPERTIES = { "log.segment.delete.delay.ms": "1000" };
/** A run with a sync for each set takes this share of the records. */
const FLUSHED_SHARE = 0.25;
const LIGHT_BATCH_BYTES = 64 * 1024;
const LIGHT: ChainSpec = {
  chain: "whole",
  batchBytes: LIGHT_BATCH_BYTES,
  inFlightBytes: 4 * MiB,
  partitions: 8,
  warmUpMs: 1_000,
  measureMs: 3_000,
};

export async function kafka(args: readonly string[]): Promise<void> {
  const rounds = Number(option(args, "rounds", "5"));
  const scale = Number(option(args, "scale", "1"));
  const wanted = option(args, "points", "").split(",").filter(Boolean);
  const dir = mkdtempSync(join(option(args, "dir", tmpdir()), "sluice-bench-"));
  const measured: Measurement[] = [];
  const light: { probe: ChainResult; sluice: ChainResult }[] = [];
  let memory: Record<string, Record<string, number>> = {};
  try {
    await using real = await startKafka({ dir: join(dir, "kafka"), heapMiB: 1024, jvm: KAFKA_JVM, properties: KAFKA_PROPERTIES });
    await using cluster = await benchCluster(join(dir, "sluice"));
    await using client = new JavaClient(real.jars);
    const { spec } = cluster;
    const processes = Object.entries(spec.processes).map(([id, { pid }]) => [id, pid] as const);
    const sluice: Peer = {
      name: "sluice",
      servers: spec.proxies[0]?.kafka as string,
      replicas: -1,
      config: [],
      processes: new Map(processes),
      share: 1,
      settled: () => journalsQuiet(spec.stores.map(({ metrics }) => metrics)),
    };
    const plain: Peer = {
      name: "kafka",
      servers: real.addresses.join(","),
      replicas: 3,
      config: ["min.insync.replicas=2"],
      processes: new Map(real.nodes.map((node, i) => [`kafka-${i + 1}`, node.pid as number])),
      share: 1,
      settled: () => deletedLogsGone(real.nodes.map(({ dataDir }) => join(dataDir, "log"))),
    };
    const flushed: Peer = { ...plain, name: "kafka, flush per set", config: [...plain.config, "flush.messages=1"], share: FLUSHED_SHARE };
    for (const point of points) {
      if (wanted.length > 0 && !wanted.includes(point.name)) continue;
      const peers = point.flushed ? [sluice, plain, flushed] : [sluice, plain];
      measured.push(...(await measurePoint(client, point, peers, rounds, scale)));
    }
    memory = { sluice: memoryOf(sluice), kafka: memoryOf(plain) };
    if (wanted.length === 0 || wanted.includes("light"))
      for (let round = 0; round <= rounds; round += 1) {
        const topic = `bench-light-${round}`;
        const probe = await runProbe(LIGHT, dir);
        await client.run("create", sluice.servers, topic, LIGHT.partitions, -1);
        const run = await runLight(LIGHT, { kafka: sluice.servers, topic, pids: [...sluice.processes.values()] });
        await client.run("delete", sluice.servers, topic);
        await sluice.settled();
        process.stderr.write(`light client, round ${round}: probe ${mb(probe)}, sluice ${mb(run)}\n`);
        if (round > 0) light.push({ probe, sluice: run });
      }
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
  const report = { machine: machine(), date: new Date().toISOString().slice(0, 10), measured, ratios: ratios(measured, light), memory };
  print(report);
  const file = option(args, "json", "");
  if (file !== "") writeFileSync(file, `${JSON.stringify(report, null, 2)}\n`);
}
const mb = (r: ChainResult): string => `${r.megabytesPerSecond.toFixed(0)} MB/s`;

/** What the goals speak of: shares of Kafka's figure, and of the probe's. */
function ratios(measured: readonly Measurement[], light: readonly { probe: ChainResult; sluice: ChainResult }[]): Record<string, number> {
  const out: Record<string, number> = {};
  for (const ours of measured.filter((m) => m.peer === "sluice")) {
    for (const theirs of measured.filter((m) => m.point === ours.point && m.peer !== "sluice")) {
      const name = `${ours.point}, of ${theirs.peer}`;
      if (ours.megabytesPerSecond && theirs.megabytesPerSecond)
        out[`${name}: MB/s`] = ours.megabytesPerSecond.median / theirs.megabytesPerSecond.median;
      if (ours.p99Ms && theirs.p99Ms && !ours.megabytesPerSecond) {
        out[`${name}: p50`] = (ours.p50Ms?.median ?? 0) / (theirs.p50Ms?.median ?? 1);
        out[`${name}: p99`] = ours.p99Ms.median / theirs.p99Ms.median;
      }
      out[`${name}: servers' CPU per MB`] = ours.cpuMsPerMB.median / theirs.cpuMsPerMB.median;
    }
  }
  if (light.length > 0) {
    const rate = (side: "probe" | "sluice"): number => rangeOf(light.map((l) => l[side].megabytesPerSecond)).median;
    out["light client at 64 KiB, of the probe: MB/s"] = rate("sluice") / rate("probe");
  }
  return out;
}

function print(report: { machine: string; measured: readonly Measurement[]; ratios: Record<string, number>; memory: unknown }): void {
  process.stdout.write(`${report.machine}\n\n`);
  const range = (r: { median: number; min: number; max: number } | undefined): string =>
    r === undefined ? "" : `${r.median.toFixed(1)} (${r.min.toFixed(1)} to ${r.max.toFixed(1)})`;
  const rows = report.measured.map((m) => [
    m.point,
    m.peer,
    range(m.megabytesPerSecond),
    range(m.p50Ms),
    range(m.p99Ms),
    range(m.cpuMsPerMB),
  ]);
  const head = ["", "", "MB/s", "p50 ms", "p99 ms", "servers' CPU ms/MB"];
  const widths = head.map((title, i) => Math.max(title.length, ...rows.map((row) => (row[i] as string).length)));
  for (const row of [head, ...rows])
    process.stdout.write(
      `${row
        .map((cell, i) => cell.padEnd(widths[i] as number))
        .join("  ")
        .trimEnd()}\n`,
    );
  process.stdout.write("\n");
  for (const [name, ratio] of Object.entries(report.ratios)) process.stdout.write(`${ratio.toFixed(2)}  ${name}\n`);
  process.stdout.write(`\nresident MiB: ${JSON.stringify(report.memory)}\n`);
}

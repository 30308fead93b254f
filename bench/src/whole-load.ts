import { connect } from "@sluice/client";
import { systemClock } from "@sluice/runtime";
import { makeBatch } from "./inner-load.ts";
import { percentile, processCpuMs, type ChainResult, type ChainSpec } from "./measure.ts";

export interface WholeTarget {
  readonly endpoint: string;
  readonly topic: string;
  readonly pids: readonly number[];
}

/** Drives the whole chain as a user's program does: the SDK over gRPC through a proxy, encoded batches, a fixed number of bytes in flight. */
export async function runWhole(spec: ChainSpec, target: WholeTarget): Promise<ChainResult> {
  await using sluice = await connect({ endpoints: [target.endpoint], clientId: "bench" });
  await using producer = sluice.producer({
    idempotent: false,
    maxInFlight: 5,
    bufferBytes: Math.max(64 * 1024 * 1024, spec.inFlightBytes * 2),
  });
  const batch = makeBatch(spec.batchBytes);
  const depth = Math.max(1, Math.floor(spec.inFlightBytes / spec.batchBytes));
  const latencies: number[] = [];
  let measuring = false;
  const stop = new AbortController();
  let batches = 0;
  let next = 0;
  const failures: unknown[] = [];
  const loop = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      const sentAt = performance.now();
      try {
        await producer.sendEncoded(target.topic, next++ % spec.partitions, batch);
      } catch (error) {
        failures.push(error);
        return;
      }
      if (measuring) {
        latencies.push(performance.now() - sentAt);
        batches += 1;
      }
    }
  };
  const loops = Array.from({ length: depth }, loop);
  await systemClock.sleep(spec.warmUpMs);
  measuring = true;
  const cpu = (): number => target.pids.reduce((sum, pid) => sum + processCpuMs(pid), processCpuMs(process.pid));
  const cpuBefore = cpu();
  const started = performance.now();
  await systemClock.sleep(spec.measureMs);
  const elapsedMs = performance.now() - started;
  measuring = false;
  const cpuMs = cpu() - cpuBefore;
  stop.abort();
  await Promise.all(loops);
  if (failures.length > 0) throw failures[0];
  const megabytes = (batches * batch.length) / 1e6;
  latencies.sort((a, b) => a - b);
  return {
    megabytesPerSecond: megabytes / (elapsedMs / 1000),
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
    cpuMsPerMegabyte: cpuMs / megabytes,
  };
}

import { readFileSync } from "node:fs";
import { systemClock } from "@sluice/runtime";

export interface ChainSpec {
  /** inner: load generator in the proxy's place; whole: through a proxy. */
  readonly chain: "inner" | "whole";
  readonly batchBytes: number;
  /** Bytes in flight; at least one batch. */
  readonly inFlightBytes: number;
  readonly partitions: number;
  readonly warmUpMs: number;
  readonly measureMs: number;
}
export interface ChainResult {
  readonly megabytesPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** CPU of all processes of the chain and of the load generator, ms per MB of payload. */
  readonly cpuMsPerMegabyte: number;
}

/** `sorted` ascending; NaN when empty. */
function percentile(sorted: readonly number[], q: number): number {
  if (sorted.length === 0) return Number.NaN;
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] as number;
}

const TICK_MS = 10;
/** User and system time of a process so far, from /proc (10 ms ticks). */
export function processCpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_MS;
}

/** The measured part of a run: what ends within it counts, and so does the CPU of the chain's processes and of this one, which drives them. */
export class MeasuredTime {
  readonly #spec: ChainSpec;
  readonly #latencies: number[] = [];
  #isOpen = false;
  #batches = 0;

  constructor(spec: ChainSpec) {
    this.#spec = spec;
  }
  /** Batches that were sent at `sentAt`, by performance.now(), have been acknowledged. */
  acknowledged(sentAt: number, batches = 1): void {
    if (!this.#isOpen) return;
    this.#latencies.push(performance.now() - sentAt);
    this.#batches += batches;
  }
  /** Warms up, then measures. `pids`: the processes of the chain; `batchBytes` as they really are. `onOpen`: the warm-up is over. */
  async run(pids: readonly number[], batchBytes: number, onOpen: () => void = () => undefined): Promise<ChainResult> {
    await systemClock.sleep(this.#spec.warmUpMs);
    onOpen();
    const cpu = (): number => pids.reduce((sum, pid) => sum + processCpuMs(pid), processCpuMs(process.pid));
    const cpuBefore = cpu();
    const started = performance.now();
    this.#isOpen = true;
    await systemClock.sleep(this.#spec.measureMs);
    const elapsedMs = performance.now() - started;
    this.#isOpen = false;
    const cpuMs = cpu() - cpuBefore;
    const megabytes = (this.#batches * batchBytes) / 1e6;
    const latencies = this.#latencies.sort((a, b) => a - b);
    return {
      megabytesPerSecond: megabytes / (elapsedMs / 1000),
      p50Ms: percentile(latencies, 0.5),
      p99Ms: percentile(latencies, 0.99),
      cpuMsPerMegabyte: cpuMs / megabytes,
    };
  }
}

import { readFileSync } from "node:fs";

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
export function percentile(sorted: readonly number[], q: number): number {
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

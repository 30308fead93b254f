import { connect } from "@sluice/client";
import { makeBatch } from "./inner-load.ts";
import { MeasuredTime, type ChainResult, type ChainSpec } from "./measure.ts";

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
  const time = new MeasuredTime(spec);
  const stop = new AbortController();
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
      time.acknowledged(sentAt);
    }
  };
  const loops = Array.from({ length: depth }, loop);
  const result = await time.run(target.pids, batch.length);
  stop.abort();
  await Promise.all(loops);
  if (failures.length > 0) throw failures[0];
  return result;
}

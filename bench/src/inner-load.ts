import { BatchBuilder } from "@sluice/core/log";
import { crc32c, nativeCodecs } from "@sluice/codec";
import { timers } from "@sluice/core/model";
import { connectLink, produceCodec, producedCodec, type Link, type LinkContext } from "@sluice/link";
import { silentLogger, systemClock, systemRandom } from "@sluice/runtime";
import { MeasuredTime, type ChainResult, type ChainSpec } from "./measure.ts";

export interface InnerTarget {
  readonly clusterId: string;
  readonly generation: number;
  readonly topicId: string;
  /** What the services of the cluster prove to each other. */
  readonly secret?: Uint8Array;
  /** Link addresses by partition. */
  readonly brokerOf: (partition: number) => string;
  /** Processes whose CPU belongs to the chain. */
  readonly pids: readonly number[];
}

/** A batch of about `bytes` in all, one record. */
export function makeBatch(bytes: number): Uint8Array {
  const builder = new BatchBuilder({ crc32c, codecs: nativeCodecs, bytesMax: 16 * 1024 * 1024 });
  const overhead = 61 + 24;
  builder.tryAppend(systemClock.wallMs(), null, new Uint8Array(Math.max(1, bytes - overhead)).fill(0x61));
  return builder.close();
}

/** What a proxy puts into one produce frame when more batches of a partition wait than one. */
const RUN_BYTES_MAX = 256 * 1024;

/**
 * Drives a broker over the data link, in the proxy's place: produce frames round robin over the partitions, a fixed number of bytes in flight. Batches that wait
 * for the same partition travel as one run, as they do behind a proxy.
 */
export async function runInner(spec: ChainSpec, target: InnerTarget): Promise<ChainResult> {
  const context: LinkContext = {
    clock: systemClock,
    random: systemRandom,
    logger: silentLogger,
    timers,
    identity: {
      clusterId: target.clusterId,
      generation: target.generation,
      service: "proxy",
      memberId: "bench",
      instance: systemRandom.uuid(),
      incarnation: "",
      zone: "bench",
    },
    ...(target.secret === undefined ? {} : { secret: target.secret }),
  };
  const links = new Map<string, Link>();
  for (let partition = 0; partition < spec.partitions; partition += 1) {
    const address = target.brokerOf(partition);
    if (!links.has(address)) {
      links.set(
        address,
        await connectLink(context, {
          address,
          purpose: "log",
          handlers: { onFrame: (from, frame) => from.release(frame.creditBytes), onWritable: () => fill() },
        }),
      );
    }
  }
  const batch = makeBatch(spec.batchBytes);
  const depth = Math.max(1, Math.floor(spec.inFlightBytes / spec.batchBytes));
  const runMax = Math.max(1, Math.min(Math.floor(RUN_BYTES_MAX / batch.length), Math.ceil(depth / spec.partitions)));
  const run = new Uint8Array(runMax * batch.length);
  for (let i = 0; i < runMax; i += 1) run.set(batch, i * batch.length);
  const message = produceCodec.create();
  message.topicId = target.topicId;
  const answer = producedCodec.create();
  const time = new MeasuredTime(spec);
  let inFlight = 0;
  let next = 0;
  let failed = 0;
  let stopped = false;
  let filling = false;

  function fill(): void {
    if (stopped || filling) return;
    filling = true;
    while (inFlight < depth) {
      const partition = next % spec.partitions;
      const link = links.get(target.brokerOf(partition)) as Link;
      if (!link.writable) break;
      message.partition = partition;
      const sentAt = performance.now();
      const count = Math.min(runMax, depth - inFlight);
      const taken = link.request(produceCodec, message, run.subarray(0, count * batch.length), 10_000, (frame) => {
        inFlight -= count;
        const code = frame === undefined ? 1 : producedCodec.decode(frame, answer).code;
        if (frame !== undefined) link.release(frame.creditBytes);
        if (code !== 0) failed += 1;
        else time.acknowledged(sentAt, count);
        if (inFlight <= depth - runMax) fill();
      });
      if (!taken) break;
      inFlight += count;
      next += 1;
    }
    filling = false;
  }

  fill();
  const result = await time.run(target.pids, batch.length, () => (failed = 0));
  stopped = true;
  const drained = (): boolean => inFlight === 0;
  for (let i = 0; i < 200 && !drained(); i += 1) await systemClock.sleep(10);
  for (const link of links.values()) link.close();
  if (failed > 0) throw new Error(`${failed} batches were refused`);
  return result;
}

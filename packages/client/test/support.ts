import { codeOf } from "@sluice/core/model";
import type { Random } from "@sluice/runtime";
import { SeededRandom } from "@sluice/runtime/testing";
import { connect, type ConnectOptions, type ConsumedRecord, type Sluice } from "../src/index.ts";
import { FakeCluster, type FakeProxy, startProxy } from "./fake-cluster.ts";

export interface World extends AsyncDisposable {
  readonly cluster: FakeCluster;
  readonly proxies: readonly FakeProxy[];
  readonly sluice: Sluice;
}
/** Proxies before one fake cluster with the topic `t`, and a client connected to them. */
export async function world(
  options: { partitions?: number; proxies?: number; config?: Record<string, string>; connect?: Partial<ConnectOptions> } = {},
): Promise<World> {
  const cluster = new FakeCluster();
  cluster.create("t", options.partitions ?? 1, options.config);
  const proxies = await Promise.all(Array.from({ length: options.proxies ?? 1 }, () => startProxy(cluster)));
  const random: Random = new SeededRandom(1);
  const sluice = await connect({ endpoints: proxies.map((p) => p.address), random, ...options.connect });
  return {
    cluster,
    proxies,
    sluice,
    async [Symbol.asyncDispose]() {
      await sluice.close();
      for (const proxy of proxies) await proxy.server.stop();
    },
  };
}
/** Values of all stored records, by partition, read from the fake's own log. */
export async function storedValues(w: World, topic = "t"): Promise<string[][]> {
  const all = w.cluster.topic(topic).map((): string[] => []);
  await using consumer = w.sluice.consumer({ topic, from: "earliest", untilEnd: true });
  for await (const record of consumer) (all[record.partition] as string[]).push(record.valueText() ?? "null");
  return all;
}
export async function take(source: AsyncIterable<ConsumedRecord>, count: number): Promise<ConsumedRecord[]> {
  const out: ConsumedRecord[] = [];
  for await (const record of source) {
    out.push(record);
    if (out.length === count) break;
  }
  return out;
}
/** The code that the promise rejects with; "none" when it does not. */
export const failure = (p: Promise<unknown>): Promise<string> =>
  p.then(
    () => "none",
    (error: unknown) => codeOf(error),
  );
export const numbers = (count: number, from = 0): string[] => Array.from({ length: count }, (_, i) => String(from + i));
/** Until `condition` holds; fails after `timeoutMs`. */
export async function until(condition: () => boolean, timeoutMs = 5_000): Promise<void> {
  const endsAtMs = performance.now() + timeoutMs;
  while (!condition()) {
    if (performance.now() > endsAtMs) throw new Error(`not so within ${timeoutMs} ms: ${condition.toString()}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

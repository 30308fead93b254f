import { errorNumber, type ErrorCode } from "@sluice/core/model";
import type { AccessRequest } from "@sluice/rpc";
import { FakeCluster } from "./fake-cluster.ts";
import type { Script } from "./fake-coordinator.ts";
import type { KafkaClient } from "./kafka-client.ts";
import { startProxy, type RunningProxy } from "./proxy.ts";

/** One proxy, one Kafka client, and a coordinator that answers as the script says. */
export interface Scene {
  readonly cluster: FakeCluster;
  readonly proxy: RunningProxy;
  readonly client: KafkaClient;
}
export async function scene(
  script: Script,
  run: (scene: Scene) => Promise<void>,
  may: (request: AccessRequest) => boolean = () => true,
): Promise<void> {
  await using cluster = new FakeCluster();
  await cluster.start();
  cluster.coordinator.script = script;
  await using proxy = await startProxy(cluster, "proxy-1", { authorize: (_, request) => may(request) });
  await using client = await proxy.kafka();
  await run({ cluster, proxy, client });
}
/** Runs in every version that is advertised: what a version cannot carry must not be given to the encoder. */
export async function inEveryVersion(
  { request }: { readonly request: { readonly min: number; readonly max: number } },
  run: (version: number) => Promise<void>,
): Promise<void> {
  for (let version = request.min; version <= request.max; version += 1) await run(version);
}
export const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);
export const refusal = (code: ErrorCode) => ({ error: errorNumber(code), errorMessage: code });

import { crc32c, nativeCodecs } from "@sluice/codec";
import { BatchBuilder } from "@sluice/core/log";
import { instanceId, memberId } from "@sluice/core/model";
import { AdminService } from "@sluice/proto/v1/admin";
import { ConsumeService } from "@sluice/proto/v1/consume";
import { GroupService } from "@sluice/proto/v1/group";
import { ProduceService } from "@sluice/proto/v1/produce";
import { allowAll, createRpcChannel, createRpcClient, type Authorizer, type RpcClient } from "@sluice/rpc";
import { createHealth, createListener, createMetrics, systemClock, systemRandom, type Health, type Metrics } from "@sluice/runtime";
import { createProxy, type Proxy } from "../../src/service.ts";
import type { FakeCluster } from "./fake-cluster.ts";
import { KafkaClient } from "./kafka-client.ts";

export interface RunningProxy extends AsyncDisposable {
  readonly proxy: Proxy;
  readonly health: Health;
  readonly metrics: Metrics;
  readonly produce: RpcClient<typeof ProduceService>;
  readonly consume: RpcClient<typeof ConsumeService>;
  readonly admin: RpcClient<typeof AdminService>;
  readonly groups: RpcClient<typeof GroupService>;
  /** A new connection of a Kafka client. */
  readonly kafka: () => Promise<KafkaClient>;
  /** The same through the listener for those outside. */
  readonly kafkaOutside: () => Promise<KafkaClient>;
}

/** gRPC and Kafka on free ports. */
export async function startProxy(
  cluster: FakeCluster,
  id = "proxy-1",
  authorizer: Authorizer = allowAll,
  outside?: string,
): Promise<RunningProxy> {
  const metrics = createMetrics({ service: "proxy" });
  const health = createHealth("proxy", systemClock);
  const proxy = createProxy({
    environment: cluster.environment(),
    identity: { id: memberId(id), instance: instanceId(systemRandom.uuid()), zone: "a" },
    metrics,
    health,
    authorizer,
    grpcListener: createListener("grpc", { bind: "127.0.0.1:0" }),
    kafkaListener: createListener("kafka", { bind: "127.0.0.1:0" }),
    ...(outside === undefined
      ? {}
      : { kafkaOutsideListener: createListener("kafkaOutside", { bind: "127.0.0.1:0", advertised: outside }) }),
    kafka: { autoCreateTopics: true, partitionsDefault: 2 },
  });
  await proxy.start();
  const channel = createRpcChannel(proxy.endpoints()["grpc"] as string);
  return {
    proxy,
    health,
    metrics,
    produce: createRpcClient(ProduceService, channel),
    consume: createRpcClient(ConsumeService, channel),
    admin: createRpcClient(AdminService, channel),
    groups: createRpcClient(GroupService, channel),
    kafka: () => KafkaClient.connect(proxy.endpoints()["kafka"] as string),
    kafkaOutside: () => KafkaClient.connect(`127.0.0.1:${String(proxy.endpoints()["kafkaOutside"]).split(":")[1]}`),
    async [Symbol.asyncDispose]() {
      channel.close();
      await proxy.stop();
    },
  };
}

const utf8 = new TextEncoder();
/** A batch of values without keys. */
export function batchOf(values: readonly string[], timestampMs = 1_000): Uint8Array {
  const builder = new BatchBuilder({ crc32c, codecs: nativeCodecs });
  for (const value of values) builder.tryAppend(timestampMs, null, utf8.encode(value));
  return builder.close();
}
/** Waits on the wall, polling every 5 ms. */
export async function eventually(done: () => boolean | Promise<boolean>, what: string, timeoutMs = 5_000): Promise<void> {
  const endMs = Date.now() + timeoutMs;
  while (!(await done())) {
    if (Date.now() > endMs) throw new Error(`not within ${timeoutMs} ms: ${what}`);
    await systemClock.sleep(5);
  }
}

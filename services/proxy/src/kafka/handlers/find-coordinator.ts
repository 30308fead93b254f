import { checkGroupName } from "@sluice/core/model";
import { apis, type FindCoordinatorResponse, type FindCoordinatorResponseCoordinator, type Input } from "@sluice/kafka-wire";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { KafkaError } from "../errors.ts";
import { checkGroup, groupFailure } from "../group-calls.ts";
import type { KafkaNode } from "../topology.ts";
import { registered } from "./metadata.ts";

type Found = Input<FindCoordinatorResponseCoordinator>;
/** What keys name. */
const GROUP = 0;
const TRANSACTION = 1;
/** Several keys in one request from this version on. */
const BATCHED_FROM = 4;
const NOWHERE = { nodeId: -1, host: "", port: -1 };

/** Every proxy reaches every group; which one is told is the same whoever is asked, and none that drains. */
export const findCoordinator = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.FindCoordinator,
    access: { resource: "group", operation: "describe" },
    async handle({ key, keyType, coordinatorKeys }, call): Promise<Input<FindCoordinatorResponse>> {
      await registered(context);
      const staying = context.topology.staying();
      const nodeOf = (group: string): KafkaNode | undefined => context.topology.coordinator(group, staying);
      if (call.version >= BATCHED_FROM)
        return { coordinators: await Promise.all(coordinatorKeys.map((one) => find(nodeOf, call, keyType, one))) };
      const { nodeId, host, port, errorCode, errorMessage } = await find(nodeOf, call, keyType, key);
      return { nodeId, host, port, errorCode, errorMessage };
    },
  });

async function find(nodeOf: (group: string) => KafkaNode | undefined, call: KafkaCall, keyType: number, key: string): Promise<Found> {
  const failed = (errorCode: number, errorMessage: string): Found => ({ key, ...NOWHERE, errorCode, errorMessage });
  if (keyType === TRANSACTION) return failed(KafkaError.unsupportedVersion, "transactions are not served");
  if (keyType !== GROUP) return failed(KafkaError.invalidRequest, `keys of type ${keyType}`);
  try {
    await checkGroup(call, key);
    checkGroupName(key);
  } catch (error) {
    return { key, ...NOWHERE, ...groupFailure(error) };
  }
  const node = nodeOf(key);
  if (node === undefined) return failed(KafkaError.coordinatorNotAvailable, "no proxy that Kafka clients can reach is registered");
  return { key, nodeId: node.nodeId, host: node.host, port: node.port, errorCode: KafkaError.none, errorMessage: null };
}

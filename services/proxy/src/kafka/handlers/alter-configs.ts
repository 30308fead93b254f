import { SluiceError } from "@sluice/core/model";
import { apis } from "@sluice/kafka-wire";
import { inParallel } from "../../parallel.ts";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { kafkaFailure, KafkaError } from "../errors.ts";
import { kafkaLimits } from "../limits.ts";
import { changeConfig, topicNamed } from "../topic-admin.ts";
import { changedList, isResettable, takeTopicConfig } from "../topic-configs.ts";
import { ConfigResource } from "./describe-configs.ts";

/** Operations of the incremental form. The last two are for lists: items are added to what is there, or taken away. */
const Op = { set: 0, delete: 1, append: 2, subtract: 3 } as const;

interface Resource {
  readonly resourceType: number;
  readonly resourceName: string;
}
interface Change {
  readonly set: readonly (readonly [string, string | null])[];
  readonly reset: readonly string[];
}

/** The whole configuration of a topic: what is not named goes back to its default. */
export const alterConfigs = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.AlterConfigs,
    access: { resource: "topic", operation: "alter" },
    handle: async ({ resources, validateOnly }, call) => ({
      responses: await inParallel(resources, kafkaLimits.topicsParallel, (resource) =>
        one(context, call, resource, validateOnly, async () => {
          const topic = await topicNamed(context, call, resource.resourceName);
          const named = new Set(resource.configs.map(({ name }) => name));
          return {
            set: resource.configs.map(({ name, value }) => [name, value] as const),
            reset: Object.keys(topic.config).filter((name) => !named.has(name)),
          };
        }),
      ),
    }),
  });

/** Single keys of a topic. */
export const incrementalAlterConfigs = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.IncrementalAlterConfigs,
    access: { resource: "topic", operation: "alter" },
    handle: async ({ resources, validateOnly }, call) => ({
      responses: await inParallel(resources, kafkaLimits.topicsParallel, (resource) =>
        one(context, call, resource, validateOnly, async () => {
          await topicNamed(context, call, resource.resourceName);
          const set: (readonly [string, string | null])[] = [];
          const reset: string[] = [];
          for (const { name, value, configOperation: op } of resource.configs) {
            if (op === Op.delete) reset.push(name);
            else if (op === Op.set || value === null) set.push([name, value]);
            else if (op === Op.append || op === Op.subtract) set.push([name, changedList(name, value, op === Op.append)]);
            else throw new SluiceError("INVALID_CONFIG", `${op} is no operation on ${name}`);
          }
          return { set, reset };
        }),
      ),
    }),
  });

async function one(
  context: KafkaContext,
  call: KafkaCall,
  { resourceType, resourceName }: Resource,
  validateOnly: boolean,
  wanted: () => Promise<Change>,
): Promise<Resource & { errorCode?: number; errorMessage?: string }> {
  const resource = { resourceType, resourceName };
  if (resourceType !== ConfigResource.topic)
    return { ...resource, errorCode: KafkaError.invalidRequest, errorMessage: "only the configuration of topics can be changed" };
  try {
    const { set, reset } = await wanted();
    const change = { set: takeTopicConfig(set), reset: reset.filter(isResettable) };
    if (!validateOnly && Object.keys(change.set).length + change.reset.length > 0) await changeConfig(context, call, resourceName, change);
    return resource;
  } catch (error) {
    return { ...resource, ...kafkaFailure(error) };
  }
}

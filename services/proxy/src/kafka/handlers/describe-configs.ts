import {
  apis,
  type DescribeConfigsRequestDescribeConfigsResource,
  type DescribeConfigsResponseDescribeConfigsResult,
  type Input,
} from "@sluice/kafka-wire";
import { inParallel } from "../../parallel.ts";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { KafkaError, kafkaFailure } from "../errors.ts";
import { kafkaLimits } from "../limits.ts";
import { topicNamed } from "../topic-admin.ts";
import { describeBrokerConfig, describeTopicConfig, type ConfigEntry } from "../topic-configs.ts";

/** Kafka's numbers of what can be configured. */
export const ConfigResource = { topic: 2, broker: 4 } as const;

export const describeConfigs = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.DescribeConfigs,
    access: { resource: "topic", operation: "describe" },
    handle: async ({ resources, includeDocumentation, includeSynonyms }, call) => ({
      results: await inParallel(resources, kafkaLimits.topicsParallel, (resource) =>
        one(context, call, resource, includeDocumentation, includeSynonyms),
      ),
    }),
  });

async function one(
  context: KafkaContext,
  call: KafkaCall,
  { resourceType, resourceName, configurationKeys }: DescribeConfigsRequestDescribeConfigsResource,
  withDocumentation: boolean,
  withSynonyms: boolean,
): Promise<Input<DescribeConfigsResponseDescribeConfigsResult>> {
  try {
    const entries = await entriesOf(context, call, resourceType, resourceName);
    if (typeof entries === "number") return { resourceType, resourceName, errorCode: entries, errorMessage: "not served here" };
    const asked = configurationKeys === null || configurationKeys.length === 0 ? undefined : new Set(configurationKeys);
    return {
      resourceType,
      resourceName,
      configs: entries
        .filter(({ name }) => asked?.has(name) ?? true)
        .map(({ name, value, readOnly, source, type, documentation, synonyms }) => ({
          name,
          value,
          readOnly,
          configSource: source,
          synonyms: withSynonyms ? synonyms : [],
          isSensitive: false,
          configType: type,
          documentation: withDocumentation ? documentation : null,
        })),
    };
  } catch (error) {
    return { resourceType, resourceName, ...kafkaFailure(error) };
  }
}
async function entriesOf(context: KafkaContext, call: KafkaCall, type: number, name: string): Promise<readonly ConfigEntry[] | number> {
  if (type === ConfigResource.topic) return describeTopicConfig(await topicNamed(context, call, name));
  if (type !== ConfigResource.broker) return KafkaError.invalidRequest;
  if (!(await call.mayOther("cluster", "describe", undefined))) return KafkaError.clusterAuthorizationFailed;
  // "" = the defaults of all brokers: none of them can be changed by a client.
  if (name === "") return [];
  const isNode = context.topology.nodes().some(({ nodeId }) => String(nodeId) === name);
  return isNode ? describeBrokerConfig(context.settings) : KafkaError.invalidRequest;
}

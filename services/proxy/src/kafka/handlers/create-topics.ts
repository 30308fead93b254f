import { limits } from "@sluice/core/model";
import {
  apis,
  type CreateTopicsRequestCreatableTopic,
  type CreateTopicsResponseCreatableTopicResult,
  type Input,
} from "@sluice/kafka-wire";
import { inParallel } from "../../parallel.ts";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { KafkaError, kafkaFailure } from "../errors.ts";
import { kafkaLimits } from "../limits.ts";
import { createTopic } from "../topic-admin.ts";
import { describeTopicConfig, takeTopicConfig } from "../topic-configs.ts";

type Result = Input<CreateTopicsResponseCreatableTopicResult>;
/** Every record is on three storage nodes, whatever factor up to this is asked for. */
const REPLICATION_MAX = 3;

/** Topics, each on its own; answered when this proxy shows them, and every other one finds them in the metadata. */
export const createTopics = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.CreateTopics,
    access: { resource: "topic", operation: "create" },
    async handle({ topics, timeoutMs, validateOnly }, call) {
      const twice = new Set(topics.map(({ name }) => name).filter((name, i, all) => all.indexOf(name) !== i));
      const unique = topics.filter(({ name }, i) => topics.findIndex((other) => other.name === name) === i);
      return {
        topics: await inParallel(unique, kafkaLimits.topicsParallel, (topic) =>
          twice.has(topic.name)
            ? { name: topic.name, errorCode: KafkaError.invalidRequest, errorMessage: "the request names the topic twice" }
            : one(context, call, topic, timeoutMs, validateOnly),
        ),
      };
    },
  });

async function one(
  context: KafkaContext,
  call: KafkaCall,
  topic: CreateTopicsRequestCreatableTopic,
  timeoutMs: number,
  validateOnly: boolean,
): Promise<Result> {
  const { name } = topic;
  if (!(await call.may(name))) return { name, errorCode: KafkaError.topicAuthorizationFailed };
  const refusal = refuse(topic);
  if (refusal !== undefined) return { name, ...refusal };
  try {
    const config = takeTopicConfig(topic.configs.map((entry) => [entry.name, entry.value] as const));
    const partitions = partitionsOf(topic, context.settings.partitionsDefault);
    const record = await createTopic(context, call, { name, partitions, config, validateOnly }, timeoutMs);
    return {
      name,
      ...(record === undefined ? {} : { topicId: record.topicId }),
      numPartitions: partitions,
      replicationFactor: REPLICATION_MAX,
      configs: describeTopicConfig({ config }).map(({ name: key, value, readOnly, source }) => ({
        name: key,
        value,
        readOnly,
        configSource: source,
        isSensitive: false,
      })),
    };
  } catch (error) {
    return { name, ...kafkaFailure(error) };
  }
}

const partitionsOf = ({ assignments, numPartitions }: CreateTopicsRequestCreatableTopic, byDefault: number): number =>
  assignments.length > 0 ? assignments.length : numPartitions === -1 ? byDefault : numPartitions;

/** What the client says about partitions and copies. Who holds them is not the client's to say: a full assignment counts as their number. */
function refuse({ assignments, numPartitions, replicationFactor }: CreateTopicsRequestCreatableTopic): Omit<Result, "name"> | undefined {
  if (assignments.length > 0) {
    if (numPartitions !== -1 || replicationFactor !== -1)
      return { errorCode: KafkaError.invalidRequest, errorMessage: "partitions are given twice, by number and by assignment" };
    const indexes = assignments.map(({ partitionIndex }) => partitionIndex).sort((a, b) => a - b);
    if (indexes.some((index, i) => index !== i))
      return {
        errorCode: KafkaError.invalidReplicaAssignment,
        errorMessage: "the assignment has to name the partitions from 0 on, each once",
      };
    return undefined;
  }
  if (numPartitions !== -1 && (numPartitions < 1 || numPartitions > limits.topicPartitionsMax))
    return {
      errorCode: KafkaError.invalidPartitions,
      errorMessage: `partitions is 1 to ${limits.topicPartitionsMax}, got ${numPartitions}`,
    };
  if (replicationFactor !== -1 && (replicationFactor < 1 || replicationFactor > REPLICATION_MAX))
    return {
      errorCode: KafkaError.invalidReplicationFactor,
      errorMessage: `every record is on ${REPLICATION_MAX} storage nodes; a factor of ${replicationFactor} cannot be had`,
    };
  return undefined;
}

import { limits } from "@sluice/core/model";
import {
  apis,
  type CreatePartitionsRequestCreatePartitionsTopic,
  type CreatePartitionsResponseCreatePartitionsTopicResult,
  type Input,
} from "@sluice/kafka-wire";
import { inParallel } from "../../parallel.ts";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { KafkaError, kafkaFailure } from "../errors.ts";
import { kafkaLimits } from "../limits.ts";
import { addPartitions, topicNamed } from "../topic-admin.ts";

type Result = Input<CreatePartitionsResponseCreatePartitionsTopicResult>;

/** More partitions for topics. Who holds them is not the client's to say: an assignment only has to name as many as are new. */
export const createPartitions = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.CreatePartitions,
    access: { resource: "topic", operation: "alter" },
    handle: async ({ topics, timeoutMs, validateOnly }, call) => ({
      results: await inParallel(topics, kafkaLimits.topicsParallel, (topic) => one(context, call, topic, timeoutMs, validateOnly)),
    }),
  });

async function one(
  context: KafkaContext,
  call: KafkaCall,
  { name, count, assignments }: CreatePartitionsRequestCreatePartitionsTopic,
  timeoutMs: number,
  validateOnly: boolean,
): Promise<Result> {
  try {
    const topic = await topicNamed(context, call, name);
    if (count <= topic.partitions || count > limits.topicPartitionsMax)
      return {
        name,
        errorCode: KafkaError.invalidPartitions,
        errorMessage: `topic ${name} has ${topic.partitions} partitions; it can have more, up to ${limits.topicPartitionsMax}, and ${count} were asked for`,
      };
    if (assignments !== null && assignments.length !== count - topic.partitions)
      return { name, errorCode: KafkaError.invalidReplicaAssignment, errorMessage: "the assignment does not name every new partition" };
    await addPartitions(context, call, topic, count, validateOnly, timeoutMs);
    return { name };
  } catch (error) {
    return { name, ...kafkaFailure(error) };
  }
}

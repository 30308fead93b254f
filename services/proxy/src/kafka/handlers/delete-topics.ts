import { SluiceError, type TopicRecord } from "@sluice/core/model";
import { apis, ZERO_UUID, type DeleteTopicsRequest, type DeleteTopicsResponseDeletableTopicResult, type Input } from "@sluice/kafka-wire";
import { inParallel } from "../../parallel.ts";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { KafkaError, kafkaFailure } from "../errors.ts";
import { kafkaLimits } from "../limits.ts";
import { deleteTopic, topicNamed } from "../topic-admin.ts";
import { topicWithId } from "./metadata.ts";

type Result = Input<DeleteTopicsResponseDeletableTopicResult>;
/** Topics may be named by their ids from this version on. */
const IDS_FROM = 6;

export const deleteTopics = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.DeleteTopics,
    access: { resource: "topic", operation: "delete" },
    handle: async (request, call) => ({
      responses: await inParallel(wanted(request, call.version), kafkaLimits.topicsParallel, (topic) =>
        one(context, call, topic, request.timeoutMs),
      ),
    }),
  });

interface Wanted {
  readonly name: string | null;
  readonly topicId: string;
}
const wanted = ({ topics, topicNames }: DeleteTopicsRequest, version: number): readonly Wanted[] =>
  version >= IDS_FROM ? topics : topicNames.map((name) => ({ name, topicId: ZERO_UUID }));

async function one(context: KafkaContext, call: KafkaCall, { name, topicId }: Wanted, timeoutMs: number): Promise<Result> {
  try {
    if ((name === null) === (topicId === ZERO_UUID)) throw new SluiceError("INVALID_ARGUMENT", "a topic is named by its name or by its id");
    const topic = name === null ? await identified(context, call, topicId) : await topicNamed(context, call, name);
    if (topic === undefined) return { name, topicId, errorCode: KafkaError.unknownTopicId };
    await deleteTopic(context, call, topic, name === null, timeoutMs);
    return { name: topic.name, topicId: topic.topicId };
  } catch (error) {
    return { name, topicId, ...kafkaFailure(error) };
  }
}
async function identified(context: KafkaContext, call: KafkaCall, topicId: string): Promise<TopicRecord | undefined> {
  const topic = await topicWithId(context, topicId);
  if (topic === undefined || topic.tenant !== call.principal.tenant) return undefined;
  // Not looked up by that name: another topic may have it by now.
  if (!(await call.may(topic.name)))
    throw new SluiceError("PERMISSION_DENIED", `${call.principal.name} has no right to topic ${topic.name}`);
  return topic;
}

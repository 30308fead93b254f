import type { CreateTopicRequest, Topic } from "@sluice/proto/v1/admin";
import { type HandlerContext, requireTerm } from "./leader-only.ts";
import { topicMessage } from "./topic-message.ts";

/** Throws INVALID_NAME, INVALID_ARGUMENT, INVALID_CONFIG, TOPIC_EXISTS. */
export async function createTopic(context: HandlerContext, request: CreateTopicRequest): Promise<{ topic: Topic }> {
  const { topics } = requireTerm(context);
  const { name, partitions, config, validateOnly } = request;
  return { topic: topicMessage(await topics.create({ name, partitions, config, validateOnly })) };
}

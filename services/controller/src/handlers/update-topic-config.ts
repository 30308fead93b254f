import type { Topic, UpdateTopicConfigRequest } from "@sluice/proto/v1/admin";
import { type HandlerContext, requireTerm } from "./leader-only.ts";
import { topicMessage } from "./topic-message.ts";

/** Throws UNKNOWN_TOPIC, INVALID_NAME, INVALID_ARGUMENT, INVALID_CONFIG. */
export async function updateTopicConfig(context: HandlerContext, request: UpdateTopicConfigRequest): Promise<{ topic: Topic }> {
  const { topics } = requireTerm(context);
  return { topic: topicMessage(await topics.updateConfig(request.name, request.set, request.reset)) };
}

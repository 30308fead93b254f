import type { AddPartitionsRequest } from "@sluice/proto/internal/v1/controller";
import type { Topic } from "@sluice/proto/v1/admin";
import { type HandlerContext, requireTerm } from "./leader-only.ts";
import { topicMessage } from "./topic-message.ts";

/** Answers once the new partitions are assigned. Throws UNKNOWN_TOPIC, INVALID_NAME, INVALID_ARGUMENT. */
export async function addPartitions(context: HandlerContext, request: AddPartitionsRequest): Promise<{ topic: Topic }> {
  const { topics } = requireTerm(context);
  const { name, partitions, validateOnly } = request;
  return { topic: topicMessage(await topics.addPartitions(name, partitions, validateOnly)) };
}

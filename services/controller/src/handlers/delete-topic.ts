import type { DeleteTopicRequest } from "@sluice/proto/v1/admin";
import { topicId } from "@sluice/core/model";
import { type HandlerContext, requireTerm } from "./leader-only.ts";

/** Answers once the name is free; what the topic left is removed afterwards. Throws UNKNOWN_TOPIC, INVALID_NAME. */
export async function deleteTopic(context: HandlerContext, request: DeleteTopicRequest): Promise<Record<string, never>> {
  await requireTerm(context).topics.delete(request.name, request.topicId === "" ? undefined : topicId(request.topicId));
  return {};
}

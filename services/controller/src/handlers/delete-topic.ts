import type { DeleteTopicRequest } from "@sluice/proto/v1/admin";
import { type HandlerContext, requireTerm } from "./leader-only.ts";

/** Answers once the topic is marked; what it left is removed afterwards. Throws UNKNOWN_TOPIC, INVALID_NAME. */
export async function deleteTopic(context: HandlerContext, request: DeleteTopicRequest): Promise<Record<string, never>> {
  await requireTerm(context).topics.delete(request.name);
  return {};
}

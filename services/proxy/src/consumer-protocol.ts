import { create } from "@bufbuild/protobuf";
import { limits } from "@sluice/core/model";
import { ConsumerProtocolAssignment, ConsumerProtocolSubscription, type MessageType } from "@sluice/kafka-wire";
import { AssignedTopicSchema, type DescribeGroupResponse } from "@sluice/proto/v1/group";

/** Type of the classic groups of Kafka's consumers: their members' messages have a known form. Those of others (Connect) are theirs. */
const CONSUMER = "consumer";
/** Later versions only add at the end. */
const VERSION_MAX = 3;

/**
 * The same group with what the members of a classic one subscribe to and read, as `DescribeGroup` tells it of groups that the server assigns.
 * Bytes that are not what they should be tell nothing: the group took them without a look.
 */
export function withConsumerProtocol(group: DescribeGroupResponse): DescribeGroupResponse {
  if (group.kind !== "classic" || group.protocolType !== CONSUMER) return group;
  const bytes = group.members.reduce((sum, m) => sum + m.metadata.length + m.assignment.length, 0);
  // What is decoded comes on top of what was sent, and is never larger.
  if (bytes * 2 > limits.grpcReplyBytesMax) return group;
  const members = group.members.map((m) => ({
    ...m,
    subscribedTopics: [...(decoded(ConsumerProtocolSubscription, m.metadata)?.topics ?? [])],
    assigned: (decoded(ConsumerProtocolAssignment, m.assignment)?.assignedPartitions ?? []).map(({ topic, partitions }) =>
      create(AssignedTopicSchema, { topic, partitions: [...partitions] }),
    ),
  }));
  return { ...group, members };
}

/** A version of two bytes, then the message of that version. */
function decoded<T>(message: MessageType<T>, bytes: Uint8Array): T | undefined {
  if (bytes.length < 2) return undefined;
  const version = new DataView(bytes.buffer, bytes.byteOffset).getInt16(0);
  if (version < 0) return undefined;
  try {
    return message.decode(Math.min(version, VERSION_MAX), bytes, 2);
  } catch {
    return undefined;
  }
}

import { expect, test } from "@jest/globals";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { ConsumerProtocolAssignment, ConsumerProtocolSubscription, Writer, type Input, type MessageType } from "@sluice/kafka-wire";
import { DescribeGroupResponseSchema } from "@sluice/proto/v1/group";
import { withConsumerProtocol } from "../src/consumer-protocol.ts";

/** As Kafka's clients write them: a version, then the message of that version. */
function versioned<T>(version: number, message: MessageType<T>, value: Input<T>): Uint8Array {
  const writer = new Writer();
  message.encode(Math.min(version, 3), value, writer);
  return Buffer.concat([Buffer.from([version >> 8, version & 0xff]), ...writer.finish()]);
}
const metadata = (version: number) => versioned(version, ConsumerProtocolSubscription, { topics: ["t", "u"], userData: null });
const assignment = (version: number) =>
  versioned(version, ConsumerProtocolAssignment, { assignedPartitions: [{ topic: "t", partitions: [0, 2] }], userData: null });
const group = (kind: string, protocolType: string, ...members: readonly { metadata: Uint8Array; assignment: Uint8Array }[]) =>
  create(DescribeGroupResponseSchema, { kind, protocolType, members: [...members] });
const throughWire = (response: ReturnType<typeof group>) =>
  fromBinary(DescribeGroupResponseSchema, toBinary(DescribeGroupResponseSchema, response));
const told = (response: ReturnType<typeof group>) =>
  throughWire(withConsumerProtocol(response)).members.map((m) => [m.subscribedTopics, m.assigned.map((a) => [a.topic, a.partitions])]);

test("what the members of a classic group of consumers subscribe to and read is told, whatever the version", () => {
  for (const version of [0, 1, 2, 3, 9])
    expect(told(group("classic", "consumer", { metadata: metadata(version), assignment: assignment(version) }))).toEqual([
      [["t", "u"], [["t", [0, 2]]]],
    ]);
});
test("what is not in that form tells nothing, and hides nothing of the others", () => {
  const odd = [Buffer.alloc(0), Buffer.from([0]), Buffer.from([0xff, 0xff, 0]), Buffer.alloc(9, 0xff), assignment(1).subarray(0, 7)];
  const members = odd.map((bytes) => ({ metadata: bytes, assignment: bytes }));
  const good = { metadata: metadata(1), assignment: assignment(1) };
  expect(told(group("classic", "consumer", ...members, good))).toEqual([...odd.map(() => [[], []]), [["t", "u"], [["t", [0, 2]]]]]);
});
test("groups of other kinds and types are left as they are", () => {
  const good = { metadata: metadata(1), assignment: assignment(1) };
  for (const [kind, type] of [
    ["classic", "connect"],
    ["consumer", "consumer"],
  ] as const) {
    const response = group(kind, type, good);
    expect(withConsumerProtocol(response)).toBe(response);
  }
});

import type { Operation, ResourceType } from "@sluice/rpc";
import type { KafkaCall } from "./api.ts";

/** What the field holds when the client did not ask. */
export const NOT_ASKED = -0x8000_0000;

/** Kafka's numbers of operations. A set of them is a bit field. */
const READ = 3;
const WRITE = 4;
const CREATE = 5;
const DELETE = 6;
const ALTER = 7;
const DESCRIBE = 8;
const DESCRIBE_CONFIGS = 10;
const ALTER_CONFIGS = 11;
const IDEMPOTENT_WRITE = 12;

type Bits = ReadonlyArray<readonly [ResourceType, Operation, readonly number[]]>;
const TOPIC: Bits = [
  ["topic", "read", [READ]],
  ["topic", "write", [WRITE]],
  ["topic", "create", [CREATE]],
  ["topic", "delete", [DELETE]],
  ["topic", "alter", [ALTER, ALTER_CONFIGS]],
  ["topic", "describe", [DESCRIBE, DESCRIBE_CONFIGS]],
];
const GROUP: Bits = [
  ["group", "read", [READ]],
  ["group", "delete", [DELETE]],
  ["group", "describe", [DESCRIBE]],
];
const CLUSTER: Bits = [
  ["topic", "create", [CREATE]],
  ["cluster", "describe", [DESCRIBE, DESCRIBE_CONFIGS]],
  ["producer", "write", [IDEMPOTENT_WRITE]],
];

async function allowed(call: KafkaCall, bits: Bits, name: string | undefined): Promise<number> {
  let field = 0;
  for (const [resource, operation, numbers] of bits) {
    if (await call.mayOther(resource, operation, name)) for (const number of numbers) field |= 1 << number;
  }
  return field;
}
export const topicOperations = (call: KafkaCall, name: string): Promise<number> => allowed(call, TOPIC, name);
export const clusterOperations = (call: KafkaCall): Promise<number> => allowed(call, CLUSTER, undefined);
export const groupOperations = (call: KafkaCall, name: string): Promise<number> => allowed(call, GROUP, name);

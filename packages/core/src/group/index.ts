export { assign, assignorNames, type AssignedMember, type AssignorName } from "./assignors.ts";
export * from "./admin.ts";
export { filterPartitions, partitionCount, sameAssignment, toAssignment } from "./assignment.ts";
export * from "./classic.ts";
export { classicOf, isNewest, stored, storeRefused, timePassed, type ClassicStep } from "./classic-rebalance.ts";
export * from "./classic-state.ts";
export type { GroupConfig } from "./config.ts";
export * from "./consumer.ts";
export {
  checkHeartbeat,
  consumerGroupState,
  type ConsumerContext,
  type ConsumerHeartbeat,
  type HeartbeatReply,
  type TopicLookup,
} from "./consumer-state.ts";
export * from "./decide.ts";
export * from "./expiry.ts";
export {
  EPOCH_LEFT_STATIC,
  type Assignment,
  type ClassicGroup,
  type ClassicMember,
  type ConsumerMember,
  type TopicPartitions,
} from "./membership.ts";
export * from "./record.ts";
export * from "./shards.ts";
export * from "./snapshot.ts";
export * from "./state.ts";

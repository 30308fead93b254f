import type { GroupConfig } from "@sluice/core/group";
import { limits } from "@sluice/core/model";

const DAY_MS = 86_400_000;

/** The defaults. Kafka's are the same but for the delay of a first generation (3,000), the consumer session (45,000) and its heartbeat (5,000). */
export const groupConfigDefault: GroupConfig = {
  sessionTimeoutMinMs: 6_000,
  sessionTimeoutMaxMs: 1_800_000,
  initialRebalanceDelayMs: 500,
  membersMax: limits.groupMembersMax,
  consumerSessionTimeoutMs: 15_000,
  consumerHeartbeatIntervalMs: 1_000,
  offsetsRetentionMs: 7 * DAY_MS,
};

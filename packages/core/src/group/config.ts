/** What an operator may set for groups; names and meanings are Kafka's. */
export interface GroupConfig {
  readonly sessionTimeoutMinMs: number;
  readonly sessionTimeoutMaxMs: number;
  /** A group that had no members waits so long for more of them before its first generation. */
  readonly initialRebalanceDelayMs: number;
  readonly membersMax: number;
  /** Groups that the server assigns: without a heartbeat for so long a member is out. */
  readonly consumerSessionTimeoutMs: number;
  /** How often members are told to call. */
  readonly consumerHeartbeatIntervalMs: number;
  /** Offsets of a group without members are forgotten after so long. */
  readonly offsetsRetentionMs: number;
}

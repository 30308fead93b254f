/**
 * The APIs and versions that this package knows: `tools/generate.ts` takes these messages, cut to these versions, out of Kafka's schemas.
 * What a listener advertises is its own decision, within this table.
 *
 * The versions are those of Apache Kafka 4.0: clients guess a broker's release from them, so they follow one release and are no mosaic.
 */
export interface ApiRange {
  readonly key: number;
  readonly min: number;
  readonly max: number;
}
export const apiRanges = {
  Produce: { key: 0, min: 3, max: 12 },
  Fetch: { key: 1, min: 4, max: 17 },
  ListOffsets: { key: 2, min: 1, max: 10 },
  Metadata: { key: 3, min: 0, max: 13 },
  OffsetCommit: { key: 8, min: 2, max: 9 },
  OffsetFetch: { key: 9, min: 1, max: 9 },
  FindCoordinator: { key: 10, min: 0, max: 6 },
  JoinGroup: { key: 11, min: 0, max: 9 },
  Heartbeat: { key: 12, min: 0, max: 4 },
  LeaveGroup: { key: 13, min: 0, max: 5 },
  SyncGroup: { key: 14, min: 0, max: 5 },
  DescribeGroups: { key: 15, min: 0, max: 6 },
  ListGroups: { key: 16, min: 0, max: 5 },
  ApiVersions: { key: 18, min: 0, max: 4 },
  CreateTopics: { key: 19, min: 2, max: 7 },
  DeleteTopics: { key: 20, min: 1, max: 6 },
  DeleteRecords: { key: 21, min: 0, max: 2 },
  InitProducerId: { key: 22, min: 0, max: 5 },
  OffsetForLeaderEpoch: { key: 23, min: 2, max: 4 },
  DescribeConfigs: { key: 32, min: 1, max: 4 },
  AlterConfigs: { key: 33, min: 0, max: 2 },
  DescribeLogDirs: { key: 35, min: 1, max: 4 },
  CreatePartitions: { key: 37, min: 0, max: 3 },
  DeleteGroups: { key: 42, min: 0, max: 2 },
  IncrementalAlterConfigs: { key: 44, min: 0, max: 1 },
  OffsetDelete: { key: 47, min: 0, max: 0 },
  DescribeCluster: { key: 60, min: 0, max: 2 },
  ConsumerGroupHeartbeat: { key: 68, min: 0, max: 1 },
  ConsumerGroupDescribe: { key: 69, min: 0, max: 1 },
} as const satisfies Record<string, ApiRange>;
export type ApiName = keyof typeof apiRanges;

/** Bytes that consumers put into group messages: opaque to the protocol, described by schemas of their own. Versions are in front of them. */
export const dataRanges = {
  ConsumerProtocolSubscription: { min: 0, max: 3 },
  ConsumerProtocolAssignment: { min: 0, max: 3 },
} as const;

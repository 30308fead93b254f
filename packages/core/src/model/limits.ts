/**
 * Every size limit of the system, in one place, with its unit in its name.
 * Values that a user may change are defaults of configuration keys; the others are fixed by a format.
 */
const KiB = 1024;
const MiB = 1024 * KiB;
const GiB = 1024 * MiB;

export const limits = {
  /** Topic, tenant and group names. */
  nameCharsMax: 249,
  memberNameCharsMax: 64,
  /** One message as the producer sent it (topic configuration `max.message.bytes`). */
  messageBytesDefault: 1 * MiB,
  messageBytesCap: 8 * MiB,
  /** Several batches of one partition in one write: bytes of all ... */
  produceRunBytesMax: 1 * MiB,
  /** ... and their number. */
  produceRunBatchesMax: 1_024,
  headersPerRecordMax: 64,
  headerBytesPerRecordMax: 64 * KiB,
  /** Records in one batch. */
  recordsPerBatchMax: 1_000_000,
  /** A batch may always decompress to this much ... */
  decompressedBytesFree: 16 * MiB,
  /** ... a larger one to this many times its compressed size ... */
  decompressionRatioMax: 32,
  /** ... and none to more than this. */
  decompressedBytesCap: 128 * MiB,
  /** Batches between two entries of a segment's sparse index. */
  indexIntervalBytes: 4 * KiB,
  /** One frame of the data link, all included. */
  linkFrameBytesMax: 16 * MiB,
  /** Header part of a link frame: fixed struct and tagged fields. */
  linkHeaderBytesMax: 4 * KiB,
  /** Before a peer has said hello. */
  linkPreHelloFrameBytesMax: 64 * KiB,
  /** Optional tagged fields of a frame or a journal entry. */
  annotationBytesMax: 256,
  /** Bytes in flight that a receiver grants on a log link. */
  linkCreditBytesDefault: 4 * MiB,
  slabBytes: 1 * MiB,
  /** Views smaller than this are copied out so that they do not pin a slab. */
  slabViewBytesMin: 4 * KiB,
  grpcReplyBytesMax: 3 * MiB,
  grpcReceiveBytesMax: 9 * MiB,
  segmentBytesDefault: 128 * MiB,
  /** While a segment cannot be rolled (etcd away) it may grow to this. */
  segmentBytesCap: 1 * GiB,
  uploadSinglePutBytesMax: 256 * MiB,
  journalFileBytes: 256 * MiB,
  journalGroupBytesMax: 4 * MiB,
  journalPadBytes: 4 * KiB,
  producerSnapshotBytesMax: 1 * MiB,
  /** Idempotent producers remembered per partition. */
  producersPerPartitionMax: 100_000,
  /** Batches remembered per idempotent producer: Kafka's number. */
  producerBatchesRemembered: 5,
  /** A third copy may lag this far before the segment is rolled away from it. */
  replicaLagBytesMax: 8 * MiB,
  /** Bytes that a broker holds for produce requests, until all replicas answered or the segment rolled. */
  brokerPendingBytesMax: 64 * MiB,
  /** The same for one partition. */
  partitionPendingBytesMax: 16 * MiB,
  proxyHeldProduceBytesMax: 64 * MiB,
  tailCacheBytesDefault: 64 * MiB,
  blockCacheBytesDefault: 128 * MiB,
  blockBytes: 1 * MiB,
  readRunBytesMax: 1 * MiB,
  metadataTxnOpsMax: 128,
  /** Keys and values of one metadata transaction; etcd refuses requests over 1.5 MiB. */
  metadataTxnBytesMax: 1 * MiB,
  topicPartitionsMax: 10_000,
  fetchBytesMax: 8 * MiB,
  /** Metadata text of one committed offset. */
  groupMetadataBytesMax: 4 * KiB,
  /** Offsets in one commit. */
  groupOffsetsPerRequestMax: 10_000,
  /** Log records of one commit: all of them go into one batch of the shard's log. */
  groupRequestBytesMax: 512 * KiB,
  groupsPerShardMax: 10_000,
  /** Members of one group, also those that have only been told their id. */
  groupMembersMax: 1_000,
  /** Protocols that a member of a classic group offers. */
  groupProtocolsPerMemberMax: 32,
  /** What one member says: its protocols with their metadata, or the topics it subscribes to. */
  groupMemberBytesMax: 256 * KiB,
  /** Record of a classic group, members and assignments in it: alone in one batch of the shard's log. */
  groupMembershipBytesMax: 900 * KiB,
  /** Member ids, instance ids, rack ids, protocol names; what clients say of themselves is cut to it. */
  groupTextBytesMax: 255,
  /** Partitions that a member says it reads. */
  groupOwnedPartitionsMax: 100_000,
  /** A topic pattern of a subscription. */
  groupPatternBytesMax: 1 * KiB,
  /** State of one group shard, in memory and in its snapshot. */
  groupStateBytesPerShardMax: 64 * MiB,
} as const;

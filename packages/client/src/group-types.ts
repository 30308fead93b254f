import type { CallOptions, CommittedOffset, ConsumedRecord, OffsetToCommit, Position, RecordBatch, TopicPartitions } from "./types.ts";

/** What a member of a group reads, and how. */
export interface SubscribeOptions {
  readonly group: string;
  readonly topics?: readonly string[];
  /** RE2 syntax: all topics whose whole name matches, also those made later. */
  readonly topicPattern?: string;
  /** Where partitions begin for which the group has no offset, or one that retention has overtaken. Default "earliest". */
  readonly from?: "earliest" | "latest";
  /**
   * Commits what the iteration has finished: a record (or batch) when the next one is asked for. At the interval (default 5,000), when partitions
   * are given back, and at the end. false = only `commit()`. Default true.
   */
  readonly autoCommit?: boolean | { readonly intervalMs: number };
  /** One name for one member at a time: a member that comes back within its session under this name gets its partitions again. */
  readonly instanceId?: string;
  readonly rackId?: string;
  /** How the server shares out the partitions; default the choice of most members, else "uniform". */
  readonly assignor?: "uniform" | "range";
  /** How long giving partitions back may take, the record in work and `onRevoked` included, before others get them anyway. Default 60,000. */
  readonly rebalanceTimeoutMs?: number;
  /** Awaited before the first record of the partitions. */
  readonly onAssigned?: (partitions: readonly TopicPartition[]) => void | Promise<void>;
  /** Awaited after the last record of the partitions was finished and before others get them; `lost`: others may read them already. */
  readonly onRevoked?: (
    partitions: readonly TopicPartition[],
    how: { readonly lost: boolean; readonly signal: AbortSignal },
  ) => void | Promise<void>;
  /** Bytes of batches of one topic that may be on the way or waiting here; default 4 MiB. */
  readonly creditBytes?: number;
  /** Check the CRC of every batch. Default true. */
  readonly checkCrc?: boolean;
  /** Aborting ends the iteration with CANCELLED and leaves the group. */
  readonly signal?: AbortSignal;
}
export interface TopicPartition {
  readonly topic: string;
  readonly partition: number;
}
export interface OffsetInTopic extends TopicPartition {
  /** Next record to read. */
  readonly offset: number;
  /** At most 4 KiB. */
  readonly metadata?: string;
}

/**
 * A member of a group: reads the partitions that the server assigns, each of them nobody else in the group. What was not committed when a member
 * ends without closing is read again by another: at least once.
 */
export interface GroupConsumer extends AsyncIterable<ConsumedRecord>, AsyncDisposable {
  /** Resolves when the member has its first partitions (or was told that there are none for it). */
  ready(): Promise<void>;
  /** For throughput: arrays of records, each of one partition. */
  batches(): AsyncIterable<RecordBatch>;
  /** Without offsets: everything that the iteration has given. Fails with UNKNOWN_MEMBER once the partitions are another's. */
  commit(offsets?: readonly OffsetInTopic[], options?: CallOptions): Promise<void>;
  /** The next record of the partition will be the one at the position. UNKNOWN_PARTITION when it is not read here. */
  seek(topic: string, partition: number, position: Position): Promise<void>;
  assignment(): readonly TopicPartition[];
  /** Offset of the next record that the iteration gives. */
  positions(): readonly OffsetInTopic[];
  readonly memberId: string;
  readonly memberEpoch: number;
  /** Commits what is finished (`autoCommit`), leaves the group, ends iterations. Idempotent. */
  close(): Promise<void>;
}

export interface ListGroupsOptions extends CallOptions {
  readonly states?: readonly string[];
  readonly kinds?: readonly string[];
}
export interface ListedGroup {
  readonly group: string;
  /** classic: a group of Kafka's older protocol, or one that only has offsets. */
  readonly kind: "classic" | "consumer";
  readonly state: string;
  readonly protocolType: string;
}
export interface GroupDescription extends ListedGroup {
  /** The assignor, or the protocol that the members agreed on. */
  readonly protocol: string;
  /** classic: the generation. */
  readonly groupEpoch: number;
  readonly assignmentEpoch: number;
  readonly members: readonly GroupMemberDescription[];
}
export interface GroupMemberDescription {
  readonly memberId: string;
  readonly instanceId: string;
  readonly rackId: string;
  readonly clientId: string;
  readonly clientHost: string;
  readonly memberEpoch: number;
  /** Of consumer groups, and of classic ones whose members are Kafka consumers; what other classic members tell each other is theirs. */
  readonly topics: readonly string[];
  readonly topicPattern: string;
  readonly assigned: readonly TopicPartition[];
  readonly target: readonly TopicPartition[];
}

/** Consumer groups and their committed offsets. */
export interface Groups {
  /** Resolves when the offsets are durable. Fails with the first partition's error; the others may be stored. */
  commit(group: string, offsets: readonly OffsetToCommit[], options?: CallOptions): Promise<void>;
  /** Without `topics` all offsets of the group. Partitions without a commit are left out. */
  fetch(group: string, topics?: readonly TopicPartitions[], options?: CallOptions): Promise<readonly CommittedOffset[]>;
  /** All groups, in order of name. */
  list(options?: ListGroupsOptions): Promise<readonly ListedGroup[]>;
  /** GROUP_NOT_FOUND. */
  describe(group: string, options?: CallOptions): Promise<GroupDescription>;
  /** With its offsets. NON_EMPTY_GROUP, GROUP_NOT_FOUND. */
  delete(group: string, options?: CallOptions): Promise<void>;
  /** Forgets offsets. GROUP_SUBSCRIBED_TO_TOPIC, GROUP_NOT_FOUND; fails with the first partition's error. */
  deleteOffsets(group: string, topics: readonly TopicPartitions[], options?: CallOptions): Promise<void>;
}

import type { CodecName } from "@sluice/core/log";

/** Text is sent as UTF-8. `null` = absent; a null value is a tombstone on a compacted topic. */
export type Bytes = string | Uint8Array | null;
/** Header of a record to send; several of one name are allowed in the array form. */
export type HeadersInit = readonly (readonly [name: string, value: Bytes])[] | Readonly<Record<string, Bytes>>;
/** Header as received; the value is a view of the received bytes. */
export type Header = readonly [name: string, value: Uint8Array | null];
export type Compression = CodecName;

export interface CallOptions {
  readonly signal?: AbortSignal;
  /** Instead of `requestTimeoutMs` of the connection. */
  readonly timeoutMs?: number;
}

export interface ProducerOptions {
  /** For records that name none. */
  readonly topic?: string;
  /** Default "none". */
  readonly compression?: Compression;
  /**
   * Records wait this long for others at most, and only while earlier batches of their partition are unanswered: an idle partition sends at the
   * end of the turn. 0 to 1,000; default 5.
   */
  readonly lingerMs?: number;
  /** A batch is closed at this size before compression; 1 KiB to 8 MiB, lowered to the topic's `max.message.bytes`. Default 64 KiB. */
  readonly batchBytes?: number;
  /** Bytes of records that wait or are in flight; beyond, `send` waits. As many again may wait, then `send` fails with OVERLOADED. Default 32 MiB. */
  readonly bufferBytes?: number;
  /** Unanswered batches per partition, 1 to 5; default 5. Without idempotence 1 to 1,000, default 1: more can turn the order at a retry. */
  readonly maxInFlight?: number;
  /** Every record exactly once in its partition, however often it is sent again. Default true. */
  readonly idempotent?: boolean;
  /** From `send` to the answer, all retries included. Default 120,000. */
  readonly deliveryTimeoutMs?: number;
  /** Default: murmur2 of the key as Kafka's; without a key one random partition per `batchBytes` sent. Returns 0 to partitions - 1. */
  readonly partitioner?: Partitioner;
}
export type Partitioner = (key: Uint8Array | null, partitions: number, topic: string) => number;

export interface ProducerRecord {
  /** Default: the producer's. */
  readonly topic?: string;
  readonly key?: Bytes;
  readonly value: Bytes;
  /** At most 64 and 64 KiB. */
  readonly headers?: HeadersInit;
  /** Default: by the partitioner. */
  readonly partition?: number;
  /** Milliseconds since 1970, -1 = none; default now. */
  readonly timestampMs?: number;
  /** W3C trace context, sent as the header `traceparent` unless the record has one; "" = none. Default: that of `connect`. */
  readonly traceparent?: string;
}
export interface RecordMetadata {
  readonly partition: number;
  /** -1 when the server only knows that the record was stored before (DUPLICATE_SEQUENCE). */
  readonly offset: number;
  /** The broker's append time on topics of type LogAppendTime, else the record's time. */
  readonly timestampMs: number;
}
export interface BatchToSend {
  readonly topic?: string;
  /** Default: of the first record's key, by the partitioner. */
  readonly partition?: number;
  /** Stored as one batch, all or none; `topic` and `partition` of the records are ignored. */
  readonly records: readonly ProducerRecord[];
  /** Written only if the first record gets exactly this offset; else UNEXPECTED_OFFSET. */
  readonly expectedBaseOffset?: number;
  /** Written only if no writer has used a higher token for the partition; else FENCED_TOKEN. */
  readonly fenceToken?: number;
}
export interface BatchMetadata {
  readonly partition: number;
  /** -1 as in RecordMetadata. */
  readonly baseOffset: number;
  readonly lastOffset: number;
  /** -1 unless the topic's timestamps are the broker's. */
  readonly appendTimeMs: number;
}

/**
 * Sends records. Acknowledged = durable on two storage nodes. Order within a partition is the order of the calls.
 * Failures are `SluiceError`s: OUTCOME_UNKNOWN = sent, and may or may not be stored; every other code = not stored.
 */
export interface Producer extends AsyncDisposable {
  /** Waits while the buffer is full. */
  send(record: ProducerRecord): Promise<RecordMetadata>;
  /** As `send`, but undefined, and nothing sent, when the buffer is full. */
  trySend(record: ProducerRecord): Promise<RecordMetadata> | undefined;
  /** One promise for all; the results in the order given. Rejects with the first failure when all have been answered. */
  sendMany(records: readonly ProducerRecord[]): Promise<readonly RecordMetadata[]>;
  /** One batch, one promise. Fails with MESSAGE_TOO_LARGE when it does not fit. */
  sendBatch(batch: BatchToSend): Promise<BatchMetadata>;
  /**
   * One encoded Kafka record batch (version 2), sent as it is: sequences are the caller's, and nothing is sent twice unless it carries a producer id.
   * Do not change the bytes before the answer. Those without a producer id that wait for the same partition are written together.
   */
  sendEncoded(topic: string, partition: number, batch: Uint8Array): Promise<BatchMetadata>;
  /** Resolves when there is room in the buffer. */
  ready(): Promise<void>;
  /** Resolves when all that was given to it has been answered, well or badly. */
  flush(): Promise<void>;
  /** Flushes; later sends fail with SHUTTING_DOWN. Idempotent. */
  close(): Promise<void>;
  /** Bytes of records that wait or are in flight. */
  readonly bufferedBytes: number;
}

/** Where to read. `offset` = the next record to read; `timestampMs` = the first record at or after it, or the end when there is none. */
export type Position = "earliest" | "latest" | { readonly offset: number } | { readonly timestampMs: number };

export interface ConsumerOptions {
  readonly topic: string;
  /** Default all. */
  readonly partitions?: readonly number[];
  /** For all partitions, or by partition number (the others: "earliest"). Default "latest". */
  readonly from?: Position | ReadonlyMap<number, Position>;
  /** Bytes of batches that may be on the way or waiting here; default 4 MiB. */
  readonly creditBytes?: number;
  /** Ends when the ends of all partitions, as they were at the start, are reached. Default false. */
  readonly untilEnd?: boolean;
  /** When retention has overtaken the position, or it is beyond the end: fail with OFFSET_OUT_OF_RANGE, or go on there. Default "error". */
  readonly onOutOfRange?: "error" | "earliest" | "latest";
  /** Check the CRC of every batch. Default true. */
  readonly checkCrc?: boolean;
  /** Aborting ends the iteration with CANCELLED. */
  readonly signal?: AbortSignal;
}
/** A record as read. Key, value and headers are views of the received bytes: copy what is kept for long. */
export interface ConsumedRecord {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly timestampMs: number;
  readonly key: Uint8Array | null;
  readonly value: Uint8Array | null;
  readonly headers: readonly Header[];
  /** As UTF-8; null when absent. */
  keyText(): string | null;
  valueText(): string | null;
  /** Value of the last header of that name; undefined when there is none. */
  header(name: string): Uint8Array | null | undefined;
}
export interface RecordBatch {
  readonly topic: string;
  readonly partition: number;
  /** In order, at least one. */
  readonly records: readonly ConsumedRecord[];
  /** Next offset to read. */
  readonly nextOffset: number;
  readonly highWatermark: number;
}
/**
 * Reads committed records: each once, in order per partition, across broken connections. One iteration at a time; leaving a loop keeps the place,
 * the next one goes on there.
 */
export interface Consumer extends AsyncIterable<ConsumedRecord>, AsyncDisposable {
  /** Resolves when the starting positions are fixed: what is written after that is read. */
  ready(): Promise<void>;
  /** For throughput: arrays of records, each of one partition. */
  batches(): AsyncIterable<RecordBatch>;
  /** The next record of the partition will be the one at the position. Records received before are dropped. */
  seek(partition: number, position: Position): Promise<void>;
  /** Offset of the next record that the iteration gives, by partition; only known ones. */
  positions(): ReadonlyMap<number, number>;
  /** Iterations end. Idempotent. */
  close(): Promise<void>;
}

export interface Admin {
  /** TOPIC_EXISTS, INVALID_NAME, INVALID_CONFIG, INVALID_ARGUMENT. */
  createTopic(topic: NewTopic, options?: CallOptions): Promise<TopicInfo>;
  /** UNKNOWN_TOPIC. */
  deleteTopic(name: string, options?: CallOptions): Promise<void>;
  listTopics(options?: CallOptions & { readonly includeInternal?: boolean }): Promise<readonly TopicInfo[]>;
  /** With `includePartitions` also owners and segments. UNKNOWN_TOPIC. */
  describeTopic(name: string, options?: CallOptions & { readonly includePartitions?: boolean }): Promise<TopicDescription>;
  /** UNKNOWN_TOPIC, INVALID_CONFIG. */
  updateTopicConfig(name: string, change: ConfigChange, options?: CallOptions): Promise<TopicInfo>;
  /**
   * `partitions`: all of them together, more than now; resolves when the new ones are assigned. Keys may have another partition from then on.
   * UNKNOWN_TOPIC, INVALID_ARGUMENT.
   */
  addPartitions(name: string, partitions: number, options?: CallOptions & { readonly validateOnly?: boolean }): Promise<TopicInfo>;
  describeCluster(options?: CallOptions): Promise<ClusterDescription>;
  /** Offsets of a position in the given partitions, default all. Fails with the first partition's error. */
  listOffsets(
    topic: string,
    position: Position,
    options?: CallOptions & { readonly partitions?: readonly number[] },
  ): Promise<PartitionOffset[]>;
}
export interface NewTopic {
  readonly name: string;
  readonly partitions: number;
  readonly config?: Readonly<Record<string, string>>;
  /** Check everything, create nothing. */
  readonly validateOnly?: boolean;
}
export interface ConfigChange {
  readonly set?: Readonly<Record<string, string>>;
  /** Keys that go back to their defaults. */
  readonly reset?: readonly string[];
}
export interface TopicInfo {
  readonly name: string;
  readonly topicId: string;
  readonly partitions: number;
  /** Effective, defaults included. */
  readonly config: Readonly<Record<string, string>>;
  readonly internal: boolean;
  readonly createdAtMs: number;
  readonly deleting: boolean;
}
export interface TopicDescription extends TopicInfo {
  /** Empty unless asked for. */
  readonly partitionDetails: readonly PartitionDetails[];
}
export interface PartitionDetails {
  readonly partition: number;
  /** "" = none now. */
  readonly owner: string;
  readonly epoch: number;
  readonly phase: string;
  readonly logStartOffset: number;
  readonly segments: readonly SegmentDetails[];
}
export interface SegmentDetails {
  readonly segmentId: string;
  readonly base: number;
  /** -1 while open. */
  readonly end: number;
  readonly phase: string;
  readonly replicas: readonly string[];
  readonly objectKey: string;
  readonly sizeBytes: number;
}
export interface ClusterDescription {
  readonly clusterId: string;
  readonly generation: number;
  readonly members: readonly MemberInfo[];
  readonly controller: string;
  /** All, those too that services keep their own logs in. */
  readonly topics: number;
  readonly topicsInternal: number;
  readonly partitions: number;
  /** Partitions that no broker serves now. */
  readonly partitionsOffline: number;
  /** Partitions that take no records now: without a broker, or with fewer than two storage nodes in the cluster that have room. */
  readonly partitionsUnwritable: number;
  /** Why no partition takes records: `NOT_ENOUGH_REPLICAS` or `DISK_FULL`; empty when there is no reason for all of them. */
  readonly unwritableReason: string;
  /** The metadata store does not answer the server that was asked: all of this is the last that it knew. */
  readonly metadataStale: boolean;
}
export interface MemberInfo {
  readonly service: string;
  readonly id: string;
  readonly instance: string;
  readonly zone: string;
  readonly endpoints: Readonly<Record<string, string>>;
  readonly version: string;
  readonly draining: boolean;
  /** A storage node without room on its disk: it serves what it has and takes nothing new. */
  readonly diskFull: boolean;
}
export interface PartitionOffset {
  readonly partition: number;
  /** -1 = no record at or after the asked timestamp. */
  readonly offset: number;
  /** Of the record found by timestamp, else -1. */
  readonly timestampMs: number;
}

export interface OffsetToCommit {
  readonly topic: string;
  readonly partition: number;
  /** Next record to read. */
  readonly offset: number;
  /** At most 4 KiB. */
  readonly metadata?: string;
}
export interface CommittedOffset {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
  readonly metadata: string;
  readonly committedAtMs: number;
}
export interface TopicPartitions {
  readonly topic: string;
  /** Default all. */
  readonly partitions?: readonly number[];
}

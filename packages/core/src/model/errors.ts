/**
 * The one catalogue of errors. Numbers are persisted on the wire: never reuse one, never change one.
 * `kafka` is the Kafka protocol's error code (https://kafka.apache.org/protocol#protocol_error_codes), `grpc` the gRPC status.
 */
export interface ErrorEntry {
  readonly number: number;
  readonly retriable: boolean;
  readonly grpc: GrpcStatusName;
  readonly kafka: number;
  readonly hint: string;
}
export type GrpcStatusName =
  | "CANCELLED"
  | "UNKNOWN"
  | "INVALID_ARGUMENT"
  | "DEADLINE_EXCEEDED"
  | "NOT_FOUND"
  | "ALREADY_EXISTS"
  | "PERMISSION_DENIED"
  | "RESOURCE_EXHAUSTED"
  | "FAILED_PRECONDITION"
  | "ABORTED"
  | "OUT_OF_RANGE"
  | "UNIMPLEMENTED"
  | "INTERNAL"
  | "UNAVAILABLE"
  | "DATA_LOSS"
  | "UNAUTHENTICATED";

const e = (number: number, retriable: boolean, grpc: GrpcStatusName, kafka: number, hint: string): ErrorEntry => ({
  number,
  retriable,
  grpc,
  kafka,
  hint,
});

export const errorCatalogue = {
  // Client input
  INVALID_ARGUMENT: e(1, false, "INVALID_ARGUMENT", 42, "Correct the request; the message names the field."),
  INVALID_NAME: e(2, false, "INVALID_ARGUMENT", 17, "Names are 1 to 249 characters of [A-Za-z0-9._-]."),
  INVALID_CONFIG: e(3, false, "INVALID_ARGUMENT", 40, "The message names the key and the values it takes."),
  CORRUPT_BATCH: e(4, false, "INVALID_ARGUMENT", 2, "The batch failed its CRC or its header is malformed; send it again as built."),
  UNSUPPORTED_FORMAT: e(5, false, "INVALID_ARGUMENT", 43, "Only record batch version 2 is accepted."),
  MESSAGE_TOO_LARGE: e(6, false, "INVALID_ARGUMENT", 10, "Send smaller messages or raise max.message.bytes of the topic."),
  INVALID_TIMESTAMP: e(
    7,
    false,
    "INVALID_ARGUMENT",
    32,
    "The record's timestamp is too far from the broker's clock for the topic: message.timestamp.before.max.ms and message.timestamp.after.max.ms.",
  ),
  UNKNOWN_TOPIC: e(8, false, "NOT_FOUND", 3, "Create the topic, or check its name."),
  UNKNOWN_PARTITION: e(9, false, "NOT_FOUND", 3, "The topic has fewer partitions."),
  TOPIC_EXISTS: e(10, false, "ALREADY_EXISTS", 36, "Choose another name, or use the existing topic."),
  OFFSET_OUT_OF_RANGE: e(11, false, "OUT_OF_RANGE", 1, "Start again from earliest or latest."),
  UNSUPPORTED_CODEC: e(12, false, "INVALID_ARGUMENT", 76, "Use none, gzip, snappy, lz4 or zstd."),
  FRAME_TOO_LARGE: e(13, false, "RESOURCE_EXHAUSTED", 42, "The frame is over the limit that the message names."),
  MALFORMED_FRAME: e(14, false, "INVALID_ARGUMENT", 42, "The frame does not follow its format."),
  UNKNOWN_FRAME: e(15, false, "UNIMPLEMENTED", 35, "The peer speaks another version."),
  INVALID_RECORD: e(
    16,
    false,
    "INVALID_ARGUMENT",
    87,
    "The batch is well formed but a client may not send it; the message names the field.",
  ),
  UNKNOWN_SERVICE: e(17, false, "NOT_FOUND", 35, "This listener does not serve it; check the address."),
  UNREADABLE_BATCH: e(
    18,
    false,
    "DATA_LOSS",
    2,
    "A producer has stored a batch that cannot be decoded, or decompresses to more than is taken; go on at the offset after it, which the error names (nextOffset).",
  ),
  // Idempotence and conditional append
  OUT_OF_ORDER_SEQUENCE: e(
    20,
    false,
    "FAILED_PRECONDITION",
    45,
    "An earlier batch of this producer is missing; the producer must start a new epoch.",
  ),
  INVALID_PRODUCER_EPOCH: e(21, false, "FAILED_PRECONDITION", 47, "A newer instance of this producer has taken over."),
  UNKNOWN_PRODUCER: e(22, false, "FAILED_PRECONDITION", 59, "The partition does not know the producer, or no longer; it must begin anew."),
  DUPLICATE_SEQUENCE: e(23, false, "ALREADY_EXISTS", 46, "The batch was stored before, too long ago to know its offset."),
  UNEXPECTED_OFFSET: e(24, false, "FAILED_PRECONDITION", 1, "Another writer has appended; read to the end and decide again."),
  FENCED_TOKEN: e(25, false, "FAILED_PRECONDITION", 47, "A writer with a newer fence token has taken over."),
  GROUP_LIMIT: e(
    26,
    false,
    "RESOURCE_EXHAUSTED",
    81,
    "The group's shard holds as much as it may; remove groups or offsets that nobody needs.",
  ),
  OFFSET_METADATA_TOO_LARGE: e(27, false, "INVALID_ARGUMENT", 12, "Metadata of a committed offset is at most 4 KiB."),
  // Availability: the client waits or retries
  NOT_OWNER: e(40, true, "UNAVAILABLE", 6, "The partition has moved; refresh the route."),
  PARTITION_RECOVERING: e(41, true, "UNAVAILABLE", 5, "The partition is being taken over; retry."),
  OUTCOME_UNKNOWN: e(42, true, "UNAVAILABLE", 20, "The write may or may not be stored; retry with idempotence."),
  TIMED_OUT: e(43, true, "DEADLINE_EXCEEDED", 7, "No answer within the deadline; a write may have happened or not."),
  NOT_ENOUGH_REPLICAS: e(44, true, "UNAVAILABLE", 19, "Fewer than two storage nodes are alive."),
  OVERLOADED: e(45, true, "RESOURCE_EXHAUSTED", 89, "A queue is full; slow down and retry after throttleMs."),
  DISK_FULL: e(46, true, "RESOURCE_EXHAUSTED", 56, "Storage nodes are above their write limit."),
  SHUTTING_DOWN: e(47, true, "UNAVAILABLE", 7, "The server is going away; connect to another."),
  METADATA_UNAVAILABLE: e(48, true, "UNAVAILABLE", 7, "The metadata store does not answer."),
  COORDINATOR_NOT_AVAILABLE: e(49, true, "UNAVAILABLE", 15, "The group's shard is being taken over; retry."),
  NOT_COORDINATOR: e(50, true, "UNAVAILABLE", 16, "The shard has moved; refresh the route."),
  NOT_LEADER: e(51, true, "UNAVAILABLE", 41, "Another controller leads; the route is refreshed from the metadata."),
  OBJECT_STORE_UNAVAILABLE: e(52, true, "UNAVAILABLE", 56, "The object store does not answer."),
  OBJECT_NOT_FOUND: e(54, false, "NOT_FOUND", 56, "The object is gone; refresh the metadata and retry."),
  UNREACHABLE: e(55, true, "UNAVAILABLE", 7, "No connection to the server; nothing was sent. Try another, or again."),
  MESSAGE_UNFINISHED: e(
    56,
    true,
    "RESOURCE_EXHAUSTED",
    89,
    "The rest of a message did not come in time, or too much memory waits for such rests; send whole messages, and again.",
  ),
  NOT_READY: e(53, true, "UNAVAILABLE", 7, "The service has not finished starting."),
  // Storage node answers to brokers and proxies; never shown to a client
  STALE_EPOCH: e(60, false, "FAILED_PRECONDITION", 74, "A newer epoch was seen for the partition."),
  SEGMENT_FENCED: e(61, false, "FAILED_PRECONDITION", 74, "The segment accepts no appends."),
  UNKNOWN_SEGMENT: e(62, false, "NOT_FOUND", 3, "No such segment was created here."),
  APPEND_GAP: e(63, true, "FAILED_PRECONDITION", 45, "The append does not follow the last offset."),
  IO_FAILED: e(64, false, "INTERNAL", 56, "The disk failed; the node must be replaced."),
  WRONG_INCARNATION: e(65, false, "FAILED_PRECONDITION", 74, "The node was formatted anew."),
  SEGMENT_EXISTS: e(66, false, "ALREADY_EXISTS", 36, "The segment was created by another request."),
  CORRUPT_SEGMENT: e(67, false, "DATA_LOSS", 2, "Copies differ or fail their checksum; the alarm names the segment."),
  READ_UNAVAILABLE: e(68, true, "UNAVAILABLE", 9, "This copy cannot answer the read; another can."),
  SEGMENT_INCOMPLETE: e(69, true, "UNAVAILABLE", 9, "This copy ends before the segment's end."),
  LINK_DOWN: e(70, true, "UNAVAILABLE", 7, "The connection to the peer is gone; it is opened again."),
  // Metadata store
  COMPARE_FAILED: e(80, false, "ABORTED", 7, "The key has changed since it was read."),
  UNKNOWN_OUTCOME: e(81, true, "UNKNOWN", 7, "The transaction may still be applied; send the identical one again."),
  LEASE_LOST: e(82, false, "FAILED_PRECONDITION", 7, "The lease has ended."),
  FOLDER_IN_USE: e(
    84,
    false,
    "FAILED_PRECONDITION",
    7,
    "One process at a time uses a data folder; stop that one, or choose another folder.",
  ),
  COMPACTED: e(83, true, "OUT_OF_RANGE", 7, "The revision is gone; list again."),
  // Identity and rights
  CLUSTER_MISMATCH: e(90, false, "FAILED_PRECONDITION", 104, "The peer belongs to another cluster; the message names both."),
  VERSION_MISMATCH: e(91, false, "FAILED_PRECONDITION", 35, "No common protocol version; the message names both ranges."),
  UNAUTHENTICATED: e(92, false, "UNAUTHENTICATED", 58, "Prove who you are."),
  PERMISSION_DENIED: e(93, false, "PERMISSION_DENIED", 29, "The principal lacks this operation on this resource."),
  // Consumer groups
  ILLEGAL_GENERATION: e(100, false, "FAILED_PRECONDITION", 22, "The group has moved on; the member must join again."),
  INCONSISTENT_GROUP_PROTOCOL: e(101, false, "FAILED_PRECONDITION", 23, "The member and the group have no protocol in common."),
  INVALID_GROUP: e(102, false, "INVALID_ARGUMENT", 24, "Group names are 1 to 249 bytes of UTF-8 without control characters."),
  UNKNOWN_MEMBER: e(103, false, "NOT_FOUND", 25, "The group does not know the member (any more); it must join again."),
  INVALID_SESSION_TIMEOUT: e(104, false, "INVALID_ARGUMENT", 26, "The message names the limits of the session timeout."),
  REBALANCE_IN_PROGRESS: e(105, true, "ABORTED", 27, "The group rebalances; the member must join again."),
  NON_EMPTY_GROUP: e(106, false, "FAILED_PRECONDITION", 68, "Stop the members of the group first."),
  GROUP_NOT_FOUND: e(107, false, "NOT_FOUND", 69, "There is no such group, or it is of the other kind."),
  MEMBER_ID_REQUIRED: e(108, false, "FAILED_PRECONDITION", 79, "Join again with the member id of this answer."),
  FENCED_INSTANCE_ID: e(109, false, "FAILED_PRECONDITION", 82, "Another member has taken over this instance id."),
  GROUP_SUBSCRIBED_TO_TOPIC: e(110, false, "FAILED_PRECONDITION", 86, "A member of the group reads the topic."),
  FENCED_MEMBER_EPOCH: e(111, false, "FAILED_PRECONDITION", 110, "The member must give up its partitions and join again with epoch 0."),
  UNRELEASED_INSTANCE_ID: e(112, false, "FAILED_PRECONDITION", 111, "Another member with this instance id has not left yet."),
  UNSUPPORTED_ASSIGNOR: e(113, false, "INVALID_ARGUMENT", 112, "The assignors are uniform and range."),
  STALE_MEMBER_EPOCH: e(114, true, "ABORTED", 113, "The member's epoch has changed; send it again with the newest one."),
  INVALID_REGULAR_EXPRESSION: e(115, false, "INVALID_ARGUMENT", 128, "The topic pattern is not valid RE2 syntax."),
  // Ours
  CANCELLED: e(98, false, "CANCELLED", 7, "The caller gave up."),
  INTERNAL: e(99, false, "INTERNAL", -1, "A fault of ours; the log has the cause."),
} as const satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof errorCatalogue;

const byNumber = new Map<number, ErrorCode>();
for (const [code, entry] of Object.entries(errorCatalogue)) byNumber.set(entry.number, code as ErrorCode);
/** The code of a wire number; numbers that this version does not know become INTERNAL. 0 means success and has no code. */
export const errorCodeOf = (number: number): ErrorCode => byNumber.get(number) ?? "INTERNAL";
export const errorNumber = (code: ErrorCode): number => errorCatalogue[code].number;

const NO_DETAILS: Readonly<Record<string, string>> = Object.freeze({});
const BRAND = Symbol.for("sluice.error");

/** The one error class. Match by `code`, never by class: realms and package copies differ. */
export class SluiceError extends Error {
  readonly code: ErrorCode;
  readonly retriable: boolean;
  readonly hint: string;
  /** Milliseconds that the caller should wait before it tries again; 0 = no advice. */
  readonly throttleMs: number;
  /** What a program may want to know of the case, such as `nextOffset`; travels with the error over gRPC. */
  readonly details: Readonly<Record<string, string>>;
  constructor(
    code: ErrorCode,
    message: string,
    options: { cause?: unknown; throttleMs?: number; details?: Readonly<Record<string, string>> } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "SluiceError";
    this.code = code;
    this.retriable = errorCatalogue[code].retriable;
    this.hint = errorCatalogue[code].hint;
    this.throttleMs = options.throttleMs ?? 0;
    this.details = options.details ?? NO_DETAILS;
    Object.defineProperty(this, BRAND, { value: true });
  }
}
export const isSluiceError = (x: unknown): x is SluiceError => typeof x === "object" && x !== null && BRAND in x;
/** The code of anything thrown; INTERNAL when it is none of ours. */
export const codeOf = (x: unknown): ErrorCode => (isSluiceError(x) ? x.code : "INTERNAL");
/** Anything thrown as a SluiceError, the original as cause. */
export function asSluiceError(x: unknown, fallback: ErrorCode = "INTERNAL"): SluiceError {
  if (isSluiceError(x)) return x;
  return new SluiceError(fallback, x instanceof Error ? x.message : String(x), { cause: x });
}

import { timers } from "@sluice/core/model";

const KiB = 1024;
const MiB = 1024 * KiB;

/** Limits of the client, unit in the name. */
export const clientLimits = {
  endpointsMax: 64,
  /** Connections tried for the one that is needed, more with more endpoints: a single endpoint may be a balancer's. */
  openingsMax: 3,
  bufferBytesDefault: 32 * MiB,
  batchBytesDefault: 64 * KiB,
  batchBytesMin: KiB,
  lingerMsDefault: 5,
  lingerMsMax: 1_000,
  /** The server remembers this many batches of a producer: more in flight could not be told from new ones. */
  inFlightBatchesMax: 5,
  inFlightPlainMax: 1_000,
  /** Waiting batches without a sequence are written together up to this size. */
  runBytesMax: 256 * KiB,
  creditBytesDefault: 4 * MiB,
  creditBytesMin: 64 * KiB,
  creditBytesMax: 256 * MiB,
  /** Decoded bytes that one step of `batches()` gives at most, one stored batch excepted. */
  decodedBytesPerStep: 4 * MiB,
  /** Counted for a record beside its key, value and headers. */
  recordOverheadBytes: 64,
} as const;

/** Waiting times of the client in milliseconds. */
export const clientTimers = {
  connectTimeoutMs: 5_000,
  requestTimeoutMs: 30_000,
  deliveryTimeoutMs: 120_000,
  /** A proxy holds a write for as long as `produceHoldMs` while a partition moves; silence beyond that is a dead connection. */
  answerTimeoutMs: timers.produceHoldMs + 10_000,
  /** First wait before a retry; doubles up to the last. */
  retryMinMs: 20,
  retryMaxMs: 500,
  /** An endpoint that failed is tried last for this long. */
  endpointRestMs: 1_000,
  /** One endpoint may take this long to accept a connection before the next is tried. */
  endpointConnectMs: 700,
  /** After so long the next is tried beside it. */
  endpointHedgeMs: 250,
  /** How often deadlines of records are looked at. */
  deadlineCheckMs: 250,
  /** Batches whose deadlines lie further apart are not written together. */
  runDeadlinesApartMs: 1_000,
  /** A machine that has lost power ends no connection: the client finds that out after this and the time-out at the latest. */
  keepaliveMs: 1_000,
  keepaliveTimeoutMs: 2_000,
  /** A topic or a producer id that is asked for and not had for as long is asked for again; what was said meanwhile is the reason that is told. */
  attemptMs: 5_000,
  /** A topic made at another proxy a moment ago may be unknown here for as long. */
  newTopicMs: 1_000,
  /** A member's heartbeat, retries included; the next says the same again. */
  groupHeartbeatMs: 10_000,
  groupLeaveMs: 2_000,
  groupCommitIntervalMs: 5_000,
  /** A topic of the assignment that cannot be read (just made, just deleted) is tried again after so long. */
  groupTopicRetryMs: 500,
} as const;

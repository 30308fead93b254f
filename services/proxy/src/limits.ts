import { limits } from "@sluice/core/model";

const KiB = 1024;
const MiB = 1024 * KiB;

/** Limits of the proxy alone; those that others share are in core/model/limits. */
export const proxyLimits = {
  /** Bytes of batches of one produce stream without an answer; more are not read from it. */
  streamInFlightBytesMax: 8 * MiB,
  /** The same in messages. */
  streamInFlightMessagesMax: 8_192,
  /** Share of the router's budget at which produce streams stop reading. */
  heldPauseShare: 0.75,
  /** Data of one answer of a consume stream. */
  consumeChunkBytes: 1 * MiB,
  /** Credit of one consume stream that is used, however much the client grants: what a stream costs when its client stops reading. */
  consumeCreditBytesMax: 16 * MiB,
  /** Partitions of one consume stream. */
  consumePartitionsMax: 10_000,
  /** Partitions whose offsets one ListOffsets call looks up at the same time. */
  listOffsetsParallel: 16,
  /** A fetch that names no size. */
  fetchBytesDefault: 1 * MiB,
  /** A partition without readers near its end is followed for this long, so that the next reader finds the tail warm. */
  tailIdleMs: 10_000,
  /** A reader looks again after this long without news: the push can be lost, and storage nodes may know more. */
  tailQuietMs: 1_000,
  /** Wait after a read that failed before the next, ms. */
  readRetryMs: 50,
  /** How long a unary read goes on trying while no copy answers, beyond its own wait. */
  readUnavailableMs: 5_000,
  /** Producer ids taken from the metadata at a time. */
  producerIdBlock: 1_000,
  /** A topic that was just made is waited for in the own view for this long. */
  topicVisibleMs: 2_000,
  /** Groups in one page of a list. */
  listedGroupsMax: 1_000,
  /** Wait before another attempt at a controller, coordinator or broker that is not the right one, ms. */
  routeRetryMs: 50,
  /** What has one answer and goes on to another service, as a produce does, is answered this long before its caller's deadline, so that the answer arrives, ms. */
  answerMarginMs: 100,
  /** Names of topics that were not found, whose look-ups run now. */
  topicLookupsMax: 256,
} as const;
export const replyBytesMax = limits.grpcReplyBytesMax;

const KiB = 1024;
const MiB = 1024 * KiB;

/** Limits of the Kafka listener. What happens when one is reached stands behind it. */
export const kafkaLimits = {
  /** One Produce request, as Kafka's `socket.request.max.bytes`. Over it: the connection is closed. */
  produceRequestBytesMax: 100 * MiB,
  /** Any other request: none that is served holds more than names and numbers. Over it: the connection is closed. */
  requestBytesMax: 16 * MiB,
  /** Frames that are larger take their size from a budget that all connections share ... */
  smallFrameBytesMax: 256 * KiB,
  /** ... of this much; a connection whose frame finds no room is not read until there is some. */
  largeFramesBytesMax: 256 * MiB,
  /** A frame that only announced its size gets this much memory, or twice what has really come. */
  unprovenFrameBytes: 64 * KiB,
  /** A frame that has begun must be there within this time. Else: the connection is closed. */
  frameMs: 30_000,
  /** Connections; more are closed at once. */
  connectionsMax: 4_096,
  /** A connection without a request for this long is closed, as Kafka's `connections.max.idle.ms`. */
  idleMs: 600_000,
  /** Requests of one connection without an answer, in bytes and number; at either it is not read. One always goes. */
  inFlightBytesMax: 16 * MiB,
  inFlightRequestsMax: 1_024,
  /** Bytes of answers that a client has not taken; at this much its next request waits. */
  unsentBytesMax: 8 * MiB,
  /** A client that takes nothing for `frameMs`, and what is on its way at this rate, while its requests wait for that, is closed. */
  takenBytesPerMsMin: 256,
  /** A silent connection is probed by TCP after this long, so that one whose other side is gone does not stay. */
  keepAliveMs: 60_000,
  /** What one read of a socket brings at most: all connections read into the same buffer, one after the other. */
  readBytesMax: 256 * KiB,
  /** Smaller frames share memory: a small record must not hold much, and large ones would hold that of small ones. */
  pooledBytesMax: 4 * KiB,
  /** Fetch sessions of all connections, and their partitions together. A session unused for `fetchSessionIdleMs` makes room, else there is none. */
  fetchSessionsMax: 4_096,
  fetchSessionsPartitionsMax: 100_000,
  fetchSessionIdleMs: 120_000,
  /** Of one connection; the one that was begun first goes. */
  fetchSessionsPerConnectionMax: 4,
  /** Partitions of one session; a client with more names them each time. */
  fetchSessionPartitionsMax: 20_000,
  /** Partitions of one fetch that are read at the same time. */
  fetchParallel: 8,
  /** Partitions whose offsets one request looks up at the same time. */
  offsetsParallel: 16,
  /** Topics that one request makes, changes or looks up at the same time. */
  topicsParallel: 8,
  /** A topic id that the own view does not show yet is waited for this long. */
  topicIdVisibleMs: 500,
  /** Producers in partitions, of one connection, of which a batch failed; the oldest is no longer known. */
  sequenceGapsMax: 1_024,
  /** A proxy that goes away serves on for this long after it has said so, until no other proxy names it ... */
  announceMs: 150,
  /** ... then it sends its clients elsewhere for at most this long, less when none has asked for anything for `redirectQuietMs` ... */
  redirectMs: 2_000,
  redirectQuietMs: 500,
  /** ... batches for a partition for this long after the first; later ones are taken. */
  redirectPipelineMs: 100,
  /** A fetch that comes meanwhile waits no longer. */
  redirectFetchWaitMs: 100,
  /** Groups that one request asks about at the same time. */
  groupsParallel: 8,
  /** Beyond its rebalance timeout a member's join is waited for this long; the group answers it before that. */
  groupWaitMarginMs: 10_000,
  /** The longest wait for other members. Then the client is told to ask again. */
  groupWaitMsMax: 3_600_000,
  /** Groups that one ListGroups answers with. */
  listedGroupsMax: 100_000,
} as const;

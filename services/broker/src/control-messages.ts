import { create } from "@bufbuild/protobuf";
import type {
  CreateAnswer,
  CreateRequest,
  FenceAnswer,
  FenceRequest,
  RebuildRequest,
  RecoveryAppendRequest,
  RecoveryReadRequest,
  ReplicaStatus,
  SealAnswer,
  SealRequest,
  SegmentAddress,
} from "@sluice/core/replica";
import * as pb from "@sluice/proto/internal/v1/segment_store";

/** Plain values of core/replica to protobuf and back: the broker's side of `SegmentStoreService`. */
const address = (a: SegmentAddress): pb.SegmentAddress =>
  create(pb.SegmentAddressSchema, {
    topicId: a.partition.topicId,
    partition: a.partition.partition,
    epoch: a.segment.epoch,
    k: a.segment.k,
  });
const message = (text: string): { readonly message?: string } => (text === "" ? {} : { message: text });

export const createSegment = (r: CreateRequest): pb.CreateSegment =>
  create(pb.CreateSegmentSchema, {
    address: address(r),
    ...(r.base === undefined ? {} : { base: BigInt(r.base) }),
    incarnation: r.incarnation,
    nonce: r.nonce,
    producers: r.producers,
  });
export const createAnswer = (m: pb.CreateResult): CreateAnswer => ({
  code: m.code,
  ...message(m.message),
  segmentNumber: m.segmentNumber,
});

export const fenceSegment = (r: FenceRequest): pb.FenceSegment =>
  create(pb.FenceSegmentSchema, { address: address(r), epoch: r.epoch, incarnation: r.incarnation });
export const fenceAnswer = (m: pb.FenceResult): FenceAnswer => ({
  code: m.code,
  ...message(m.message),
  segmentNumber: m.segmentNumber,
  status: m.status as ReplicaStatus,
  trusted: m.trusted,
  base: m.base === undefined ? undefined : Number(m.base),
  last: Number(m.last),
  lac: Number(m.lac),
  chainHash: m.chainHash,
  producers: m.producers,
  sizeBytes: Number(m.sizeBytes),
  firstAppendMs: Number(m.firstAppendMs),
  lastAppendMs: Number(m.lastAppendMs),
  maxTimestampMs: Number(m.maxTimestampMs),
  maxEpoch: m.maxEpoch,
});

export const sealSegment = (r: SealRequest): pb.SealSegment =>
  create(pb.SealSegmentSchema, { address: address(r), end: BigInt(r.end), epoch: r.epoch });
export const sealAnswer = (m: pb.SealResult): SealAnswer => ({ code: m.code, ...message(m.message), status: m.status as ReplicaStatus });

export const recoveryAppend = (r: RecoveryAppendRequest): pb.RecoveryAppendRequest =>
  create(pb.RecoveryAppendRequestSchema, {
    address: address(r),
    epoch: r.epoch,
    base: BigInt(r.base),
    firstOffset: BigInt(r.firstOffset),
    lastOffset: BigInt(r.lastOffset),
    payload: r.payload,
  });
export const recoveryRead = (r: RecoveryReadRequest): pb.RecoveryReadRequest =>
  create(pb.RecoveryReadRequestSchema, { address: address(r), epoch: r.epoch, from: BigInt(r.from), maxBytes: r.maxBytes });
export const rebuild = (r: RebuildRequest): pb.RebuildRequest =>
  create(pb.RebuildRequestSchema, {
    address: address(r),
    base: BigInt(r.base),
    end: BigInt(r.end),
    incarnation: r.incarnation,
    ...(r.epoch === undefined ? {} : { epoch: r.epoch }),
    ...(r.keyRevision === undefined ? {} : { keyRevision: BigInt(r.keyRevision) }),
    producers: r.producers,
  });

import { errorNumber, incarnation, limits, SluiceError } from "@sluice/core/model";
import type { ControlAnswer, ControlRequest } from "@sluice/core/replica";
import { SegmentStoreService } from "@sluice/proto/internal/v1/segment_store";
import { defineAccess, implement, type ServiceRegistration } from "@sluice/rpc";
import type { Format } from "../disk/format.ts";
import type { ReplicaHost } from "../replica-host.ts";
import type { SegmentReader } from "../segment-reader.ts";
import { addressOf, epochOf, nameOf, offsetOf } from "./convert.ts";
import { describeNode, type NodeSpace } from "./describe-node.ts";

const internal = { resource: "cluster", operation: "internal" } as const;
const access = defineAccess(SegmentStoreService, {
  createSegments: internal,
  fenceSegments: internal,
  sealSegments: internal,
  recoveryAppend: internal,
  recoveryRead: internal,
  rebuild: internal,
  lookupTimestamp: internal,
  describeNode: internal,
});
/** Segments in one call: a broker sends about 40. */
const SEGMENTS_PER_CALL_MAX = 256;

export interface HandlerParts {
  readonly host: ReplicaHost;
  readonly reader: SegmentReader;
  readonly format: Format;
  readonly space: () => NodeSpace;
}

/** The control calls. All segments of a call go through the machine in one turn, so they share one sync. */
export function storeHandlers({ host, reader, format, space }: HandlerParts): ServiceRegistration {
  return implement(access, {
    async createSegments(request) {
      const answers = await many(host, request.segments, (s) => ({
        op: "create",
        ...addressOf(s.address),
        base: s.base === undefined ? undefined : offsetOf(s.base, "base", 0),
        incarnation: incarnation(nameOf(s.incarnation, "incarnation")),
        nonce: nameOf(s.nonce, "nonce"),
        producers: s.producers,
      }));
      return { results: only(answers, "create").map((a) => ({ code: a.code, message: a.message ?? "", segmentNumber: a.segmentNumber })) };
    },
    async fenceSegments(request) {
      const answers = await many(host, request.segments, (s) => ({
        op: "fence",
        ...addressOf(s.address),
        epoch: epochOf(s.epoch, "epoch"),
        incarnation: incarnation(nameOf(s.incarnation, "incarnation")),
      }));
      return { results: withinReply(only(answers, "fence")).map(fenceResult) };
    },
    async sealSegments(request) {
      const answers = await many(host, request.segments, (s) => ({
        op: "seal",
        ...addressOf(s.address),
        end: offsetOf(s.end, "end"),
        epoch: epochOf(s.epoch, "epoch"),
      }));
      return { results: only(answers, "seal").map((a) => ({ code: a.code, message: a.message ?? "", status: a.status })) };
    },
    async recoveryAppend(r) {
      const [a] = await host.control([
        {
          op: "recovery-append",
          ...addressOf(r.address),
          epoch: epochOf(r.epoch, "epoch"),
          base: offsetOf(r.base, "base", 0),
          firstOffset: offsetOf(r.firstOffset, "first offset", 0),
          lastOffset: offsetOf(r.lastOffset, "last offset"),
          payload: r.payload,
        },
      ]);
      const answer = only(a === undefined ? [] : [a], "recovery-append")[0];
      return {
        code: answer?.code ?? 0,
        message: answer?.message ?? "",
        last: BigInt(answer?.last ?? -1),
        chainHash: answer?.chainHash ?? "",
      };
    },
    async recoveryRead(r) {
      const answer = await reader.recoveryRead({
        ...addressOf(r.address),
        epoch: epochOf(r.epoch, "epoch"),
        from: offsetOf(r.from, "from", 0),
        maxBytes: Math.min(r.maxBytes, limits.grpcReplyBytesMax),
      });
      return { code: answer.code, message: answer.message ?? "", payload: answer.payload };
    },
    async rebuild(r) {
      const [a] = await host.control([
        {
          op: "rebuild",
          ...addressOf(r.address),
          base: offsetOf(r.base, "base", 0),
          end: offsetOf(r.end, "end"),
          incarnation: incarnation(nameOf(r.incarnation, "incarnation")),
          ...(r.epoch !== undefined && { epoch: epochOf(r.epoch, "epoch") }),
          ...(r.keyRevision !== undefined && { keyRevision: offsetOf(r.keyRevision, "key revision", 0) }),
          producers: r.producers,
        },
      ]);
      const answer = only(a === undefined ? [] : [a], "rebuild")[0];
      return { code: answer?.code ?? 0, message: answer?.message ?? "", segmentNumber: answer?.segmentNumber ?? 0 };
    },
    async lookupTimestamp(r) {
      const found = await reader.lookupTimestamp(addressOf(r.address), Number(r.timestampMs));
      return { code: found.code, message: "", offset: BigInt(found.offset) };
    },
    describeNode: () => describeNode(host.state, format, space()),
  });
}

async function many<T>(host: ReplicaHost, segments: readonly T[], convert: (s: T) => ControlRequest): Promise<readonly ControlAnswer[]> {
  if (segments.length > SEGMENTS_PER_CALL_MAX)
    throw new SluiceError("INVALID_ARGUMENT", `${segments.length} segments in one call, limit ${SEGMENTS_PER_CALL_MAX}`);
  if (segments.length === 0) return [];
  return host.control(segments.map(convert));
}
type AnswerOf<O extends ControlAnswer["op"]> = Extract<ControlAnswer, { op: O }>;
const only = <O extends ControlAnswer["op"]>(answers: readonly ControlAnswer[], op: O): AnswerOf<O>[] =>
  answers.filter((a): a is AnswerOf<O> => a.op === op);

/**
 * Producer snapshots may be 1 MiB each. What does not fit in the reply is answered OVERLOADED: the fence stands, and asking for those segments again is idempotent.
 */
function withinReply(answers: readonly AnswerOf<"fence">[]): AnswerOf<"fence">[] {
  let bytes = 0;
  return answers.map((a, i) => {
    bytes += a.producers.length;
    if (i === 0 || bytes <= limits.grpcReplyBytesMax) return a;
    bytes -= a.producers.length;
    return {
      ...a,
      code: OVERLOADED,
      message: "the reply is full: ask for this segment again",
      trusted: false,
      producers: new Uint8Array(0),
    };
  });
}
const OVERLOADED = errorNumber("OVERLOADED");

const fenceResult = (a: AnswerOf<"fence">) => ({
  code: a.code,
  message: a.message ?? "",
  segmentNumber: a.segmentNumber,
  status: a.status,
  trusted: a.trusted,
  ...(a.base !== undefined && { base: BigInt(a.base) }),
  last: BigInt(a.last),
  lac: BigInt(a.lac),
  chainHash: a.chainHash,
  producers: a.producers,
  sizeBytes: BigInt(a.sizeBytes),
  firstAppendMs: BigInt(Math.round(a.firstAppendMs)),
  lastAppendMs: BigInt(Math.round(a.lastAppendMs)),
  maxTimestampMs: BigInt(Math.round(a.maxTimestampMs)),
  maxEpoch: Math.max(0, a.maxEpoch),
});

import { asSluiceError, errorCodeOf, SluiceError } from "@sluice/core/model";
import type { MemberDescription, PartitionDescription, Topic } from "@sluice/proto/v1/admin";
import type { Position as WirePosition } from "@sluice/proto/v1/consume";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { PositionSchema } from "@sluice/proto/v1/consume";
import type { CallOptions as RpcCallOptions } from "@sluice/rpc";
import type { Connection, ProxyLink } from "./connection.ts";
import type { Admin, CallOptions, MemberInfo, PartitionDetails, PartitionOffset, Position, TopicInfo } from "./types.ts";

export type Call = <T>(
  call: (link: ProxyLink, options: RpcCallOptions) => Promise<T>,
  options: CallOptions | undefined,
  repeatable?: boolean,
) => Promise<T>;

/** Calls with the defaults of the connection. Not repeatable = an unknown outcome is told instead of tried again. */
export function createCall(
  connection: Connection,
  requestTimeoutMs: number,
  closing: AbortSignal,
  traceparent: () => string | undefined,
): Call {
  return (call, options, repeatable = true) => {
    const signal = options?.signal === undefined ? closing : AbortSignal.any([options.signal, closing]);
    const trace = traceparent();
    return connection.call((link, timeoutMs) => call(link, { timeoutMs, signal, ...(trace === undefined ? {} : { traceparent: trace }) }), {
      timeoutMs: options?.timeoutMs ?? requestTimeoutMs,
      signal,
      repeatable,
    });
  };
}

export function createAdmin(call: Call): Admin {
  return {
    async createTopic(topic, options) {
      const { name, partitions, config = {}, validateOnly = false } = topic;
      if (!Number.isInteger(partitions) || partitions < 1)
        throw new SluiceError("INVALID_ARGUMENT", `partitions is ${partitions}; it is a number from 1 up`);
      const request = { name, partitions, config, validateOnly };
      const answer = await call((link, o) => link.admin.createTopic(request, o), options, validateOnly);
      return topicInfo(answer.topic);
    },
    async deleteTopic(name, options) {
      await call((link, o) => link.admin.deleteTopic({ name }, o), options, false);
    },
    async listTopics(options) {
      const answer = await call((link, o) => link.admin.listTopics({ includeInternal: options?.includeInternal === true }, o), options);
      return answer.topics.map((topic) => topicInfo(topic));
    },
    async describeTopic(name, options) {
      const request = { name, includePartitions: options?.includePartitions === true };
      const answer = await call((link, o) => link.admin.describeTopic(request, o), options);
      return { ...topicInfo(answer.topic), partitionDetails: answer.partitions.map(partitionDetails) };
    },
    async updateTopicConfig(name, change, options) {
      const request = { name, set: { ...change.set }, reset: [...(change.reset ?? [])] };
      // Setting the same values twice is the same.
      const answer = await call((link, o) => link.admin.updateTopicConfig(request, o), options);
      return topicInfo(answer.topic);
    },
    async addPartitions(name, partitions, options) {
      if (!Number.isInteger(partitions) || partitions < 1)
        throw new SluiceError("INVALID_ARGUMENT", `partitions is ${partitions}; it is a number from 1 up`);
      const validateOnly = options?.validateOnly === true;
      // The second time there would be no more than there are already.
      const answer = await call((link, o) => link.admin.addPartitions({ name, partitions, validateOnly }, o), options, validateOnly);
      return topicInfo(answer.topic);
    },
    async describeCluster(options) {
      const c = await call((link, o) => link.admin.describeCluster({}, o), options);
      const { clusterId, generation, controller, topics, partitions, partitionsOffline, partitionsUnwritable, unwritableReason } = c;
      const { metadataStale, topicsInternal } = c;
      return {
        clusterId,
        generation,
        members: c.members.map(memberInfo),
        controller,
        topics,
        topicsInternal,
        partitions,
        partitionsOffline,
        partitionsUnwritable,
        unwritableReason,
        metadataStale,
      };
    },
    listOffsets: (topic, position, options) => listOffsets(call, topic, position, options?.partitions, options),
  };
}

/** Offsets of a position, by partition in ascending order. Retries partitions whose error can be retried, with the call. */
export async function listOffsets(
  call: Call,
  topic: string,
  position: Position,
  partitions: readonly number[] | undefined,
  options: CallOptions | undefined,
): Promise<PartitionOffset[]> {
  const request = { topic, partitions: [...(partitions ?? [])], position: wirePosition(position) };
  return call(async (link, o) => {
    const answer = await link.consume.listOffsets(request, o);
    return answer.offsets
      .map((p) => {
        if (p.error !== 0) throw new SluiceError(errorCodeOf(p.error), `${topic}/${p.partition}: ${p.errorMessage}`);
        return { partition: p.partition, offset: Number(p.offset), timestampMs: Number(p.timestampMs) };
      })
      .toSorted((a, b) => a.partition - b.partition);
  }, options);
}

/** Throws INVALID_ARGUMENT for what is no position. */
export function wirePosition(position: Position): MessageInitShape<typeof PositionSchema> {
  const at = ((): WirePosition["at"] | MessageInitShape<typeof PositionSchema>["at"] => {
    if (position === "earliest") return { case: "earliest", value: {} };
    if (position === "latest") return { case: "latest", value: {} };
    if ("offset" in position) return { case: "offset", value: int64(position.offset, "offset") };
    return { case: "timestampMs", value: int64(position.timestampMs, "timestampMs") };
  })();
  return { at } as MessageInitShape<typeof PositionSchema>;
}
export function int64(n: number, what: string): bigint {
  if (!Number.isSafeInteger(n) || n < 0) throw new SluiceError("INVALID_ARGUMENT", `${what} is ${n}; it is an integer from 0 up`);
  return BigInt(n);
}

function topicInfo(topic: Topic | undefined): TopicInfo {
  if (topic === undefined) throw asSluiceError(new Error("the answer names no topic"), "VERSION_MISMATCH");
  const { name, topicId, partitions, config, internal, deleting } = topic;
  return { name, topicId, partitions, config, internal, createdAtMs: Number(topic.createdAtMs), deleting };
}
const partitionDetails = (p: PartitionDescription): PartitionDetails => ({
  partition: p.partition,
  owner: p.owner,
  epoch: p.epoch,
  phase: p.phase,
  logStartOffset: Number(p.logStartOffset),
  segments: p.segments.map((s) => ({
    segmentId: s.segmentId,
    base: Number(s.base),
    end: Number(s.end),
    phase: s.phase,
    replicas: s.replicas,
    objectKey: s.objectKey,
    sizeBytes: Number(s.sizeBytes),
  })),
});
const memberInfo = (m: MemberDescription): MemberInfo => ({
  service: m.service,
  id: m.id,
  instance: m.instance,
  zone: m.zone,
  endpoints: m.endpoints,
  version: m.version,
  draining: m.draining,
  diskFull: m.diskFull,
});

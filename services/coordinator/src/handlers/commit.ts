import { FORGET_OFFSET, type OffsetToCommit } from "@sluice/core/group";
import {
  codeOf,
  DEFAULT_TENANT,
  errorCatalogue,
  errorNumber,
  limits,
  SluiceError,
  type ErrorCode,
  type TopicRecord,
} from "@sluice/core/model";
import type { CommitRequest } from "@sluice/proto/v1/group";
import type { CallContext } from "@sluice/rpc";
import type { Committer } from "../group-host.ts";
import { deadlineOf, hostFor, type HandlerParts } from "./parts.ts";

const utf8 = new TextEncoder();
/** Part of the caller's time that the check of the partitions' ends may use. */
const CHECK_SHARE = 0.5;

/** Stores offsets of a group. An offset that may not be stored has its own error in the reply; the others are durable when it leaves. */
export function commit(parts: HandlerParts) {
  const { clock } = parts;
  return async (request: CommitRequest, context: CallContext) => {
    const host = hostFor(parts, request.group);
    if (request.offsets.length > limits.groupOffsetsPerRequestMax)
      throw new SluiceError(
        "INVALID_ARGUMENT",
        `${request.offsets.length} offsets, the limit of one commit is ${limits.groupOffsetsPerRequestMax}`,
      );
    const now = clock.monotonicMs();
    const deadlineMs = deadlineOf(clock, context);
    const checked = await check(parts, request, now + (deadlineMs - now) * CHECK_SHARE);
    const offsets = checked.filter((c) => typeof c === "object");
    const reply =
      offsets.length === 0
        ? { codes: [] }
        : await host.commit({ kind: "commit", tenant: DEFAULT_TENANT, group: request.group, offsets }, committer(request), deadlineMs);
    parts.metrics.offsetsCommitted.inc(reply.codes.filter((code) => code === undefined).length);
    let next = 0;
    return {
      results: request.offsets.map(({ topic, partition }, i) => {
        const found = checked[i] as OffsetToCommit | ErrorCode;
        return result(topic, partition, typeof found === "string" ? found : reply.codes[next++]);
      }),
    };
  };
}

const committer = ({ memberId, instanceId, memberEpoch }: CommitRequest): Committer => ({ memberId, instanceId, epoch: memberEpoch ?? -1 });

const result = (topic: string, partition: number, code: ErrorCode | undefined) => ({
  topic,
  partition,
  error: code === undefined ? 0 : errorNumber(code),
  errorMessage: code === undefined ? "" : `${code}: ${errorCatalogue[code].hint}`,
});

/** Each offset as the shard takes it, or why it may not be committed. */
async function check(
  { topics, ends }: HandlerParts,
  { offsets, beyondEnd }: Pick<CommitRequest, "offsets" | "beyondEnd">,
  deadlineMs: number,
): Promise<(OffsetToCommit | ErrorCode)[]> {
  const known = new Map<string, Promise<TopicRecord | undefined>>();
  const topicOf = (name: string, id: string): Promise<TopicRecord | undefined> => {
    const key = `${id}/${name}`;
    let topic = known.get(key);
    if (topic === undefined) known.set(key, (topic = topics.byName(DEFAULT_TENANT, name, id)));
    return topic;
  };
  return Promise.all(
    offsets.map(async (o): Promise<OffsetToCommit | ErrorCode> => {
      const offset = Number(o.offset);
      if (!Number.isSafeInteger(offset) || offset < FORGET_OFFSET) return "OFFSET_OUT_OF_RANGE";
      const topic = await topicOf(o.topic, o.topicId);
      if (topic === undefined || topic.phase !== "ACTIVE") return "UNKNOWN_TOPIC";
      const { partition } = o;
      if (partition < 0 || partition >= topic.partitions) return "UNKNOWN_PARTITION";
      const metadata = utf8.encode(o.metadata);
      if (metadata.length > limits.groupMetadataBytesMax) return "OFFSET_METADATA_TOO_LARGE";
      try {
        if (offset !== FORGET_OFFSET && !beyondEnd && !(await ends.reaches({ topicId: topic.topicId, partition }, offset, deadlineMs)))
          return "OFFSET_OUT_OF_RANGE";
      } catch (error) {
        // Nobody can say yet how far the partition goes; the caller tries again.
        return codeOf(error);
      }
      return { topicId: topic.topicId, partition, offset, leaderEpoch: o.leaderEpoch ?? -1, metadata };
    }),
  );
}

import { apis, ZERO_UUID, type Input, type MetadataRequest, type MetadataResponse, type MetadataResponseTopic } from "@sluice/kafka-wire";
import { codeOf, RESERVED_PREFIX, topicId, type TopicRecord } from "@sluice/core/model";
import { inParallel } from "../../parallel.ts";
import { defineHandler, type AnyHandler, type KafkaCall } from "../api.ts";
import { clusterOperations, NOT_ASKED, topicOperations } from "../authorized-operations.ts";
import type { KafkaContext } from "../context.ts";
import { KafkaError, kafkaFailure } from "../errors.ts";
import { kafkaLimits } from "../limits.ts";
import { createTopic, seen } from "../topic-admin.ts";
import type { KafkaNode } from "../topology.ts";

type Topic = Input<MetadataResponseTopic>;
/** Before this version there is no null: an empty list means all topics. */
const NULL_FROM = 1;

/** Brokers, which are the live proxies, and topics with their leaders. A topic that is not there may be made. */
export const metadata = (context: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.Metadata,
    access: { resource: "topic", operation: "describe" },
    handle: (request, call) => answer(context, request, call),
  });

async function answer(context: KafkaContext, request: MetadataRequest, call: KafkaCall): Promise<Input<MetadataResponse>> {
  const { view, topology } = context;
  await registered(context);
  const asked = request.topics;
  const all = asked === null || (call.version < NULL_FROM && asked.length === 0);
  // Topics first: what is made meanwhile must find its nodes in the same answer.
  const found = all
    ? await listed(context, call)
    : await inParallel(asked, kafkaLimits.topicsParallel, (topic) =>
        topic.topicId === ZERO_UUID ? named(context, request, call, topic.name ?? "") : identified(context, call, topic.topicId),
      );
  const nodes = topology.nodes();
  const staying = topology.staying();
  const topics: Topic[] = [];
  for (const one of found) {
    const topic = "record" in one ? described(context, one.record, staying) : one;
    const operations =
      "record" in one && request.includeTopicAuthorizedOperations ? await topicOperations(call, one.record.name) : NOT_ASKED;
    topics.push({ ...topic, topicAuthorizedOperations: operations });
  }
  return {
    brokers: nodes.map(({ nodeId, host, port, rack }) => ({ nodeId, host, port, rack })),
    clusterId: view.cluster?.clusterId ?? null,
    controllerId: topology.controllerId(staying),
    topics,
    clusterAuthorizedOperations: request.includeClusterAuthorizedOperations ? await clusterOperations(call) : NOT_ASKED,
  };
}

/** A client that comes while the proxy is still registering itself must not be told of a cluster without it. */
export async function registered(context: KafkaContext): Promise<void> {
  const { topology, clock, timers } = context;
  if (topology.ownId < 0) await seen(context, () => topology.ownId >= 0, clock.monotonicMs() + timers.controlCallTimeoutMs);
}

async function listed({ view }: KafkaContext, call: KafkaCall): Promise<{ record: TopicRecord }[]> {
  const out: { record: TopicRecord }[] = [];
  for (const { record } of view.topics.values()) {
    if (record.phase !== "ACTIVE" || record.tenant !== call.principal.tenant || record.name.startsWith(RESERVED_PREFIX)) continue;
    if (await call.may(record.name)) out.push({ record });
  }
  return out;
}

async function named(
  context: KafkaContext,
  request: MetadataRequest,
  call: KafkaCall,
  name: string,
): Promise<{ record: TopicRecord } | Topic> {
  const failed = (errorCode: number): Topic => ({ errorCode, name, isInternal: false });
  if (!(await call.may(name))) return failed(KafkaError.topicAuthorizationFailed);
  try {
    return { record: await context.topics.find(call.principal.tenant, name) };
  } catch (error) {
    const mayMake = context.settings.autoCreateTopics && request.allowAutoTopicCreation && !name.startsWith(RESERVED_PREFIX);
    if (codeOf(error) !== "UNKNOWN_TOPIC" || !mayMake) return failed(kafkaFailure(error).errorCode);
  }
  if (!(await call.mayOther("topic", "create", name))) return failed(KafkaError.topicAuthorizationFailed);
  return made(context, call, name).catch((error: unknown) => failed(kafkaFailure(error).errorCode));
}
async function made(context: KafkaContext, call: KafkaCall, name: string): Promise<{ record: TopicRecord }> {
  const { timers, settings, topics } = context;
  const topic = { name, partitions: settings.partitionsDefault, config: {}, validateOnly: false };
  try {
    const record = await createTopic(context, call, topic, timers.controlCallTimeoutMs);
    return { record: record ?? (await topics.find(call.principal.tenant, name)) };
  } catch (error) {
    // Another client was first.
    if (codeOf(error) !== "TOPIC_EXISTS") throw error;
    return { record: await topics.find(call.principal.tenant, name) };
  }
}

async function identified(context: KafkaContext, call: KafkaCall, id: string): Promise<{ record: TopicRecord } | Topic> {
  const record = await topicWithId(context, id);
  if (record === undefined || record.tenant !== call.principal.tenant)
    return { errorCode: KafkaError.unknownTopicId, name: null, topicId: id, isInternal: false };
  // Who may not see the topic does not learn its name.
  if (!(await call.may(record.name))) return { errorCode: KafkaError.topicAuthorizationFailed, name: null, topicId: id, isInternal: false };
  return { record };
}
/** The topic of an id; one that the own view does not show yet is waited for a moment. */
export async function topicWithId(context: KafkaContext, id: string): Promise<TopicRecord | undefined> {
  const { view, clock } = context;
  const known = (): TopicRecord | undefined => {
    const record = view.topicsById.get(topicId(id));
    return record?.phase === "ACTIVE" ? record : undefined;
  };
  if (known() === undefined && view.topicsById.get(topicId(id)) === undefined)
    await seen(context, () => known() !== undefined, clock.monotonicMs() + kafkaLimits.topicIdVisibleMs, kafkaLimits.topicIdVisibleMs);
  return known();
}

function described({ topology }: KafkaContext, record: TopicRecord, staying: readonly KafkaNode[]): Topic {
  const leaders = topology.leaders(record);
  return {
    name: record.name,
    topicId: record.topicId,
    isInternal: record.name.startsWith(RESERVED_PREFIX),
    partitions: leaders.map((leaderId, partitionIndex) => {
      const replicas = topology.replicas(leaderId, staying);
      const leaderEpoch = topology.leaderEpoch({ topicId: record.topicId, partition: partitionIndex });
      return { partitionIndex, leaderId, leaderEpoch, replicaNodes: replicas, isrNodes: replicas };
    }),
  };
}

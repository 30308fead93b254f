import { SluiceError, topicId, type TopicRecord } from "@sluice/core/model";
import type { KafkaCall } from "./api.ts";
import type { KafkaContext } from "./context.ts";
import { proxyLimits } from "../limits.ts";
import { untilVisible } from "../visible.ts";

/** Changes of topics as several APIs need them: done by the controller that leads, and seen in the own view before they are told. */
export interface NewTopic {
  readonly name: string;
  readonly partitions: number;
  readonly config: Readonly<Record<string, string>>;
  readonly validateOnly: boolean;
}

/**
 * Monotonic ms until which a change may take: what the client waits, within the proxy's own limit. A client that asks with 0 wants it begun all the same,
 * and a change is told when it is done: then there is the proxy's limit alone.
 */
export const deadlineOf = ({ clock, timers }: KafkaContext, timeoutMs: number): number =>
  clock.monotonicMs() + Math.min(timeoutMs > 0 ? timeoutMs : timers.produceHoldMs, timers.produceHoldMs);

/** Throws what the controller said, or NOT_LEADER, UNREACHABLE, OUTCOME_UNKNOWN. Undefined: validated only. */
export async function createTopic(
  context: KafkaContext,
  call: KafkaCall,
  topic: NewTopic,
  timeoutMs: number,
): Promise<TopicRecord | undefined> {
  const deadlineMs = deadlineOf(context, timeoutMs);
  const tenant = call.principal.tenant;
  const made = await context.controller.call(deadlineMs, call.signal, (client, leftMs) =>
    client.createTopic({ ...topic, config: { ...topic.config } }, { timeoutMs: leftMs, signal: call.signal }),
  );
  if (topic.validateOnly) return undefined;
  // By its id: the view may still show a deleted topic of the same name.
  const id = topicId(made.topic?.topicId ?? "");
  await seen(context, () => context.view.topicsById.has(id), deadlineMs);
  return context.view.topicsById.get(id) ?? context.topics.find(tenant, topic.name);
}

/** `onlyThis`: the client named the topic by its id, so a later one of the same name stays. */
export async function deleteTopic(
  context: KafkaContext,
  call: KafkaCall,
  topic: TopicRecord,
  onlyThis: boolean,
  timeoutMs: number,
): Promise<void> {
  const deadlineMs = deadlineOf(context, timeoutMs);
  await context.controller.call(deadlineMs, call.signal, (client, leftMs) =>
    client.deleteTopic({ name: topic.name, ...(onlyThis && { topicId: topic.topicId }) }, { timeoutMs: leftMs, signal: call.signal }),
  );
  await seen(context, () => context.topics.known(topic.tenant, topic.name)?.topicId !== topic.topicId, deadlineMs);
}

/** Resolves when the new partitions are assigned and seen here. */
export async function addPartitions(
  context: KafkaContext,
  call: KafkaCall,
  topic: TopicRecord,
  partitions: number,
  validateOnly: boolean,
  timeoutMs: number,
): Promise<void> {
  const deadlineMs = deadlineOf(context, timeoutMs);
  const { name, tenant } = topic;
  await context.controller.call(deadlineMs, call.signal, (client, leftMs) =>
    client.addPartitions({ name, partitions, validateOnly }, { timeoutMs: leftMs, signal: call.signal }),
  );
  if (!validateOnly) await seen(context, () => (context.topics.known(tenant, name)?.partitions ?? 0) >= partitions, deadlineMs);
}

export async function changeConfig(
  context: KafkaContext,
  call: KafkaCall,
  name: string,
  change: { readonly set: Readonly<Record<string, string>>; readonly reset: readonly string[] },
): Promise<void> {
  const { controller, topics, timers } = context;
  const deadlineMs = deadlineOf(context, timers.produceHoldMs);
  const before = topics.known(call.principal.tenant, name);
  await controller.call(deadlineMs, call.signal, (client, leftMs) =>
    client.updateTopicConfig({ name, set: { ...change.set }, reset: [...change.reset] }, { timeoutMs: leftMs, signal: call.signal }),
  );
  await seen(context, () => topics.known(call.principal.tenant, name) !== before, deadlineMs);
}

/** `untilVisible` within the request's deadline. */
export function seen(
  { clock, view }: KafkaContext,
  visible: () => boolean,
  deadlineMs: number,
  withinMs: number = proxyLimits.topicVisibleMs,
): Promise<void> {
  return untilVisible(clock, view, visible, Math.min(withinMs, deadlineMs - clock.monotonicMs()));
}

/** The topic of a request that names it. Throws UNKNOWN_TOPIC, INVALID_NAME, PERMISSION_DENIED, METADATA_UNAVAILABLE. */
export async function topicNamed(context: KafkaContext, call: KafkaCall, name: string): Promise<TopicRecord> {
  if (!(await call.may(name))) throw new SluiceError("PERMISSION_DENIED", `${call.principal.name} has no right to topic ${name}`);
  return context.topics.find(call.principal.tenant, name);
}

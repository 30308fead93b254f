import type { ClusterView } from "@sluice/catalog";
import { RESERVED_PREFIX, topicId, type Timers } from "@sluice/core/model";
import { AdminService, type AddPartitionsRequest, type CreateTopicRequest, type UpdateTopicConfigRequest } from "@sluice/proto/v1/admin";
import { defineAccess, implement, type CallContext, type ServiceRegistration } from "@sluice/rpc";
import type { Clock } from "@sluice/runtime";
import { answerDeadline } from "../answer-deadline.ts";
import type { ControllerClient, LeaderClient } from "../controller-client.ts";
import { proxyLimits } from "../limits.ts";
import type { Topics } from "../topics.ts";
import { untilVisible } from "../visible.ts";
import { isAuthorized } from "./authorized.ts";
import { describeCluster, describePartitions, topicMessage } from "./descriptions.ts";

export interface AdminHandlersContext {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly view: ClusterView;
  readonly topics: Topics;
  readonly controller: ControllerClient;
  /** The metadata store does not answer now, as far as is known here. */
  readonly metadataStale: () => boolean;
}

export const adminAccess = defineAccess(AdminService, {
  createTopic: { resource: "topic", operation: "create" },
  listTopics: { resource: "topic", operation: "describe" },
  describeTopic: { resource: "topic", operation: "describe" },
  updateTopicConfig: { resource: "topic", operation: "alter" },
  addPartitions: { resource: "topic", operation: "alter" },
  deleteTopic: { resource: "topic", operation: "delete" },
  describeCluster: { resource: "cluster", operation: "describe" },
});

/** Changes go to the controller that leads; questions are answered from the own view. */
export function adminService(context: AdminHandlersContext): ServiceRegistration {
  const { view, topics } = context;
  return implement(adminAccess, {
    createTopic: (request, call) => createTopic(context, request, call),
    async listTopics(request, call) {
      const found = [];
      for (const { record } of view.topics.values()) {
        if (record.tenant !== call.principal.tenant || (record.name.startsWith(RESERVED_PREFIX) && !request.includeInternal)) continue;
        if (await isAuthorized(call, record.name)) found.push(topicMessage(record));
      }
      return { topics: found };
    },
    async describeTopic(request, call) {
      await call.authorize(request.name);
      const topic = view.topic(call.principal.tenant, request.name) ?? (await topics.find(call.principal.tenant, request.name));
      return { topic: topicMessage(topic), partitions: request.includePartitions ? describePartitions(view, topic) : [] };
    },
    updateTopicConfig: (request, call) => updateTopicConfig(context, request, call),
    addPartitions: (request, call) => addPartitions(context, request, call),
    async deleteTopic(request, call) {
      await call.authorize(request.name);
      const known = topics.known(call.principal.tenant, request.name);
      await forward(context, call, (client, timeoutMs) => client.deleteTopic(request, { timeoutMs, signal: call.signal }));
      await seen(context, call, () => topics.known(call.principal.tenant, request.name)?.topicId !== known?.topicId || known === undefined);
      return {};
    },
    describeCluster: () => describeCluster(view, context.metadataStale()),
  });
}

async function createTopic(context: AdminHandlersContext, request: CreateTopicRequest, call: CallContext) {
  await call.authorize(request.name);
  const { topic } = await forward(context, call, (client, timeoutMs) => client.createTopic(request, { timeoutMs, signal: call.signal }));
  // By its id: the view may still show a deleted topic of the same name.
  const id = topicId(topic?.topicId ?? "");
  if (!request.validateOnly) await seen(context, call, () => context.view.topicsById.has(id));
  return topic === undefined ? {} : { topic };
}
async function updateTopicConfig(context: AdminHandlersContext, request: UpdateTopicConfigRequest, call: CallContext) {
  await call.authorize(request.name);
  const before = context.topics.known(call.principal.tenant, request.name);
  const { topic } = await forward(context, call, (client, timeoutMs) =>
    client.updateTopicConfig(request, { timeoutMs, signal: call.signal }),
  );
  await seen(context, call, () => context.topics.known(call.principal.tenant, request.name) !== before);
  return topic === undefined ? {} : { topic };
}
async function addPartitions(context: AdminHandlersContext, request: AddPartitionsRequest, call: CallContext) {
  const { name, partitions, validateOnly } = request;
  await call.authorize(name);
  const { topic } = await forward(context, call, (client, timeoutMs) =>
    client.addPartitions({ name, partitions, validateOnly }, { timeoutMs, signal: call.signal }),
  );
  if (!validateOnly) await seen(context, call, () => (context.topics.known(call.principal.tenant, name)?.partitions ?? 0) >= partitions);
  return topic === undefined ? {} : { topic };
}

function forward<R>(
  context: AdminHandlersContext,
  call: CallContext,
  send: (client: LeaderClient, timeoutMs: number) => Promise<R>,
): Promise<R> {
  const { clock, timers, controller } = context;
  return controller.call(answerDeadline(clock, timers, call.remainingMs()), call.signal, send);
}

function seen({ clock, view }: AdminHandlersContext, call: CallContext, visible: () => boolean): Promise<void> {
  return untilVisible(clock, view, visible, Math.min(proxyLimits.topicVisibleMs, call.remainingMs()));
}

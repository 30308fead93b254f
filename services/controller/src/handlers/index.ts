import { ControllerService } from "@sluice/proto/internal/v1/controller";
import { defineAccess, implement, type ServiceRegistration } from "@sluice/rpc";
import { addPartitions } from "./add-partitions.ts";
import { createTopic } from "./create-topic.ts";
import { deleteTopic } from "./delete-topic.ts";
import { drain } from "./drain.ts";
import { heartbeat } from "./heartbeat.ts";
import type { HandlerContext } from "./leader-only.ts";
import { reportPeer } from "./report-peer.ts";
import { updateTopicConfig } from "./update-topic-config.ts";

/** Members and proxies call these; what a user may do was decided by the proxy's own table. */
export const controllerAccess = defineAccess(ControllerService, {
  heartbeat: { resource: "cluster", operation: "internal" },
  reportPeer: { resource: "cluster", operation: "internal" },
  drain: { resource: "cluster", operation: "internal" },
  createTopic: { resource: "cluster", operation: "internal" },
  updateTopicConfig: { resource: "cluster", operation: "internal" },
  deleteTopic: { resource: "cluster", operation: "internal" },
  addPartitions: { resource: "cluster", operation: "internal" },
});

export const controllerService = (context: HandlerContext): ServiceRegistration =>
  implement(controllerAccess, {
    heartbeat: (request) => heartbeat(context, request),
    reportPeer: (request) => reportPeer(context, request),
    drain: (request) => drain(context, request),
    createTopic: (request) => createTopic(context, request),
    updateTopicConfig: (request) => updateTopicConfig(context, request),
    deleteTopic: (request) => deleteTopic(context, request),
    addPartitions: (request) => addPartitions(context, request),
  });

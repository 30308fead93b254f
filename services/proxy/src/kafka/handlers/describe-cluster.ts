import { apis } from "@sluice/kafka-wire";
import { defineHandler, type AnyHandler } from "../api.ts";
import { clusterOperations, NOT_ASKED } from "../authorized-operations.ts";
import type { KafkaContext } from "../context.ts";
import { KafkaError } from "../errors.ts";

/** Endpoints that can be asked for. Controllers of this cluster speak no Kafka. */
const BROKERS = 1;
const CONTROLLERS = 2;

export const describeCluster = ({ view, topology }: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.DescribeCluster,
    access: { resource: "cluster", operation: "describe" },
    async handle({ endpointType, includeClusterAuthorizedOperations }, call) {
      if (endpointType === CONTROLLERS) return { errorCode: KafkaError.mismatchedEndpointType, errorMessage: "this is a broker" };
      if (endpointType !== BROKERS)
        return { errorCode: KafkaError.unsupportedEndpointType, errorMessage: `endpoints of type ${endpointType}` };
      if (!(await call.may(undefined))) return { errorCode: KafkaError.clusterAuthorizationFailed };
      const nodes = topology.nodes();
      return {
        clusterId: view.cluster?.clusterId ?? "",
        controllerId: topology.controllerId(topology.staying()),
        brokers: nodes.map(({ nodeId, host, port, rack }) => ({ brokerId: nodeId, host, port, rack })),
        clusterAuthorizedOperations: includeClusterAuthorizedOperations ? await clusterOperations(call) : NOT_ASKED,
      };
    },
  });

import { grpcClient } from "./grpc.ts";
import type { MatrixClient } from "./client.ts";
import { kcatClient } from "./kcat.ts";
import { kafkajsClient } from "./kafkajs.ts";
import { platformaticClient } from "./platformatic.ts";
import { confluentClient, kafkaPythonClient } from "./python.ts";

/** Every client of the matrix; `grpc` are the addresses of Sluice's own protocol. */
export const matrixClients = (grpc: readonly string[]): MatrixClient[] => [
  grpcClient(grpc),
  kafkajsClient,
  platformaticClient,
  kcatClient,
  confluentClient,
  kafkaPythonClient,
];

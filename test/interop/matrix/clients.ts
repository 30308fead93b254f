import { say } from "@sluice/test-support";
import { mustBeComplete } from "../support/form.ts";
import { missingToolchains } from "../support/toolchains.ts";
import { ensureFranzGo, franzGoClient } from "./franz-go.ts";
import { grpcClient } from "./grpc.ts";
import type { MatrixClient } from "./client.ts";
import { kcatClient } from "./kcat.ts";
import { kafkajsClient } from "./kafkajs.ts";
import { platformaticClient } from "./platformatic.ts";
import { confluentClient, kafkaPythonClient } from "./python.ts";

const hasGo = mustBeComplete || missingToolchains(["go"]).length === 0;

/** Every client of the matrix; `grpc` are the addresses of Sluice's own protocol. */
export const matrixClients = (grpc: readonly string[]): MatrixClient[] => [
  grpcClient(grpc),
  kafkajsClient,
  platformaticClient,
  kcatClient,
  confluentClient,
  kafkaPythonClient,
  ...(hasGo ? [franzGoClient] : []),
];

/** Builds what takes longer than a test may. */
export async function prepareMatrixClients(): Promise<void> {
  if (hasGo) await ensureFranzGo();
  else say("matrix: franz-go NOT RUN: Go not on this machine");
}

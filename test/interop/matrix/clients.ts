import { say } from "@sluice/test-support";
import { javaClassPath, javaCommand, type JavaLine } from "../java/java.ts";
import { mustBeComplete } from "../support/form.ts";
import { missingToolchains, type Toolchain } from "../support/toolchains.ts";
import { ensureFranzGo, franzGoClient } from "./franz-go.ts";
import { grpcClient } from "./grpc.ts";
import { programClient, type MatrixClient } from "./client.ts";
import { kcatClient } from "./kcat.ts";
import { kafkajsClient } from "./kafkajs.ts";
import { platformaticClient } from "./platformatic.ts";
import { confluentClient, kafkaPythonClient } from "./python.ts";

const lacks = (...needs: Toolchain[]): string[] => (mustBeComplete ? [] : missingToolchains(needs));
const noGo = lacks("go");
const noJava = lacks("java", "javac", "mvn");

/** kafka-clients of both lines: what it asks of a broker differs. */
const JAVA: readonly JavaLine[] = ["4", "3"];
const javaClients = JAVA.map((line) => programClient(`java-${line}`, () => javaCommand(line, "Matrix")));

/** Every client of the matrix; `grpc` are the addresses of Sluice's own protocol. */
export const matrixClients = (grpc: readonly string[]): MatrixClient[] => [
  grpcClient(grpc),
  kafkajsClient,
  platformaticClient,
  kcatClient,
  confluentClient,
  kafkaPythonClient,
  ...(noGo.length === 0 ? [franzGoClient] : []),
  ...(noJava.length === 0 ? javaClients : []),
];

/** Builds what takes longer than a test may. */
export async function prepareMatrixClients(): Promise<void> {
  if (noGo.length === 0) await ensureFranzGo();
  else say(`matrix: franz-go NOT RUN: ${noGo.join(", ")} not on this machine`);
  if (noJava.length > 0) return say(`matrix: Java clients NOT RUN: ${noJava.join(", ")} not on this machine`);
  for (const line of JAVA) await javaClassPath(line);
}

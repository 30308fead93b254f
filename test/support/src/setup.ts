import { ensureKgoTests } from "./franz-go.ts";
import { ensureGrpcurl, ensurePythonGrpc } from "./grpc-clients.ts";
import { ensureKafkaLibraries } from "./kafka-jars.ts";
import { ensureKcat } from "./kcat.ts";
import { ensureHelm, ensureKubernetesValidate } from "./kubernetes-tools.ts";
import { ensureLibrdkafkaTests } from "./librdkafka.ts";
import { ensurePythonKafka } from "./python-kafka.ts";
import { ensureS3Server } from "./s3.ts";
import { ensureEtcd34, ensureEtcdCurrent, say, type Tool } from "./tools.ts";

/*
 * `node test/support/src/setup.ts`: brings the servers and clients that tests start, before the tests run, and prints what there is.
 * Exits with 1 when one that must be there is missing.
 *
 * `... setup.ts suites`: what only the whole run of Kafka clients needs, and compilers work on for minutes. The suites say by themselves what is missing.
 */
async function suites(): Promise<void> {
  for (const ensure of [ensureKgoTests, ensureLibrdkafkaTests]) {
    const built = await ensure().catch((error: unknown) => say((error as Error).message));
    process.stdout.write(`${built?.folder ?? "none"}\n`);
  }
}
const print = (name: string, tool: Tool | undefined): void => {
  process.stdout.write(tool === undefined ? `${name}: none\n` : `${name}: ${tool.version} ${tool.path}\n`);
};

if (process.argv[2] === "suites") {
  await suites();
  process.exit();
}
try {
  print("etcd of the system", await ensureEtcd34());
  print("etcd, current", await ensureEtcdCurrent());
  const s3 = await ensureS3Server();
  print(`S3 server ${s3.kind}`, s3);
  process.stdout.write(`Python with gRPC: ${await ensurePythonGrpc()}\n`);
  process.stdout.write(`grpcurl: ${(await ensureGrpcurl()) ?? "none"}\n`);
  process.stdout.write(`kcat: ${await ensureKcat()}\n`);
  process.stdout.write(`Kafka's Java libraries: ${(await ensureKafkaLibraries())?.clientsJar ?? "none"}\n`);
  // The suites of Python's clients say by themselves what is missing.
  process.stdout.write(
    `Python with Kafka's clients: ${(await ensurePythonKafka().catch((error: unknown) => say((error as Error).message))) ?? "none"}\n`,
  );
  // Only the tests of the chart need these, and say what is missing.
  const helm = await ensureHelm().catch((error: unknown) => say((error as Error).message));
  print("helm", helm ?? undefined);
  print("Kubernetes' schemas", await ensureKubernetesValidate());
} catch (error) {
  say((error as Error).message);
  process.exitCode = 1;
}

export { startEtcd, type EtcdOptions, type EtcdServer } from "./etcd.ts";
export { ensureFranzGoProgram, ensureKgoTests, FRANZ_GO_VERSION, type KgoTests } from "./franz-go.ts";
export { ensureGrpcurl, ensurePythonGrpc } from "./grpc-clients.ts";
export {
  ensureKafkaLibraries,
  ensureKafkaServer,
  KAFKA_CLIENTS_VERSION,
  KAFKA_SERVER_VERSION,
  mavenJars,
  type KafkaLibraries,
} from "./kafka-jars.ts";
export { startKafka, type KafkaOptions, type KafkaServer } from "./kafka-server.ts";
export { ensureKcat, kcat, startKcat, type KcatResult, type RunningKcat } from "./kcat.ts";
export { ensureHelm, ensureKubernetesValidate } from "./kubernetes-tools.ts";
export { ensureLibrdkafkaTests, LIBRDKAFKA_VERSION, type LibrdkafkaTests } from "./librdkafka.ts";
export { startOtlpCollector, type CollectedSpan, type OtlpCollector } from "./otlp-collector.ts";
export { freePort, freePorts } from "./ports.ts";
export { CONFLUENT_KAFKA_VERSION, ensurePythonKafka, KAFKA_PYTHON_VERSION } from "./python-kafka.ts";
export { ensureS3Server, startS3, type S3Kind, type S3Options, type S3Server, type S3Tool } from "./s3.ts";
export { startTcpProxy, type TcpProxy, type TcpProxyOptions } from "./tcp-proxy.ts";
export { tempDir, type TempDir } from "./temp.ts";
export {
  aptInstall,
  cachedTool,
  ensureEtcd34,
  ensureEtcdCurrent,
  findGo,
  findProgram,
  goBuild,
  run,
  say,
  toolsDir,
  type Tool,
  withToolLock,
} from "./tools.ts";

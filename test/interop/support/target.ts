import { startKafka, type KafkaServer } from "@sluice/test-support";
import { TestCluster } from "../../e2e/support/cluster.ts";
import { againstKafka, runningKafka } from "./form.ts";

export interface TargetOptions {
  readonly name: string;
  /** Partitions of topics that are made by themselves; default 1, as Kafka's. */
  readonly partitions?: number;
  /** Settings of Sluice's services, and of Kafka's brokers. */
  readonly config?: Readonly<Record<string, string>>;
  readonly kafka?: Readonly<Record<string, string>>;
}
/** What a suite runs against: a cluster of two proxies, two brokers and four storage nodes, or three brokers of a real Kafka. */
export interface Target extends AsyncDisposable {
  readonly kind: "sluice" | "kafka";
  /** `host:port` of every node. */
  readonly addresses: readonly string[];
  /** The same, joined by commas. */
  readonly bootstrap: string;
  readonly cluster: TestCluster | undefined;
  readonly kafka: KafkaServer | undefined;
  /** A part of a test; when it fails the servers' last log lines are printed. */
  run<T>(part: () => Promise<T>): Promise<T>;
}

/** Every suite starts its own: leftovers of one must not reach the next. */
export async function startTarget(options: TargetOptions): Promise<Target> {
  const partitions = `${options.partitions ?? 1}`;
  if (againstKafka) {
    if (runningKafka !== "") return running(runningKafka);
    const kafka = await startKafka({ jvm: ["-XX:TieredStopAtLevel=1"], properties: { "num.partitions": partitions, ...options.kafka } });
    return {
      kind: "kafka",
      addresses: kafka.addresses,
      bootstrap: kafka.addresses.join(","),
      cluster: undefined,
      kafka,
      run: (part) => part(),
      [Symbol.asyncDispose]: () => kafka[Symbol.asyncDispose](),
    };
  }
  const config = { "kafka.partitionsDefault": partitions, ...options.config };
  const cluster = await TestCluster.start({ name: `interop-${options.name}`, proxies: 2, brokers: 2, stores: 4, zones: 1, config });
  return {
    kind: "sluice",
    addresses: cluster.kafka,
    bootstrap: cluster.kafka.join(","),
    cluster,
    kafka: undefined,
    run: (part) => cluster.run(part),
    [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose](),
  };
}

/** A Kafka that somebody else has started, and ends. */
const running = (bootstrap: string): Target => ({
  kind: "kafka",
  addresses: bootstrap.split(","),
  bootstrap,
  cluster: undefined,
  kafka: undefined,
  run: (part) => part(),
  [Symbol.asyncDispose]: () => Promise.resolve(),
});

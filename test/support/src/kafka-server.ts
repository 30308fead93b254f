import { mkdir, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { ensureKafkaServer } from "./kafka-jars.ts";
import { LocalServer, type Launch } from "./local-server.ts";
import { freePorts } from "./ports.ts";
import { tempDir } from "./temp.ts";
import { findProgram, run } from "./tools.ts";

/*
 * A real Apache Kafka, what Sluice is compared with: three brokers that are their own KRaft controllers, three replicas of everything.
 */
const CLUSTER_ID = "c2x1aWNlLXRlc3RzLWthZg";
const READY_TIMEOUT_MS = 300_000;
const CONNECT_TIMEOUT_MS = 500;
/** Of a JVM that lives for seconds. */
const QUICK = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"];

export interface KafkaOptions {
  /** Default 3. */
  readonly nodes?: number;
  /** Over the defaults below, for every broker. */
  readonly properties?: Readonly<Record<string, string>>;
  /** Of each broker; default 512. */
  readonly heapMiB?: number;
  /** More options of each broker's JVM. */
  readonly jvm?: readonly string[];
  /** Where data lies; default a temporary folder, which goes with the cluster. */
  readonly dir?: string;
}

/** A broker process. */
class KafkaNode extends LocalServer {
  readonly address: string;
  readonly #launch: Launch;
  constructor(dataDir: string, address: string, launch: Launch) {
    super(dataDir, READY_TIMEOUT_MS, undefined);
    this.address = address;
    this.#launch = launch;
  }
  protected launch(): Launch {
    return this.#launch;
  }
  /** Its listener opens when it has caught up with the controllers. */
  protected ready(): Promise<boolean> {
    const [host = "", port] = this.address.split(":");
    return new Promise((resolve) => {
      const socket = connect({ host, port: Number(port), timeout: CONNECT_TIMEOUT_MS });
      const end = (open: boolean): void => {
        socket.destroy();
        resolve(open);
      };
      socket
        .once("connect", () => end(true))
        .once("error", () => end(false))
        .once("timeout", () => end(false));
    });
  }
}

export interface KafkaServer extends AsyncDisposable {
  readonly nodes: readonly KafkaNode[];
  /** `host:port` of every broker. */
  readonly addresses: readonly string[];
  /** Folder of the jars, for `java -cp 'FOLDER/*'`: Kafka's own tools lie there too. */
  readonly jars: string;
}

/** Starts a cluster; needs Java 17 and, the first time on a machine, Maven. Throws, naming what is missing. */
export async function startKafka(options: KafkaOptions = {}): Promise<KafkaServer> {
  const java = findProgram("java", ["/usr/bin"]);
  if (java === undefined) throw new Error("a real Kafka needs Java, which is not on this machine");
  const jars = await ensureKafkaServer();
  const cleanUp = new AsyncDisposableStack();
  try {
    const dir = options.dir ?? cleanUp.use(await tempDir("kafka")).path;
    const count = options.nodes ?? 3;
    const ports = await freePorts(2 * count);
    const voters = Array.from({ length: count }, (_, i) => `${i + 1}@127.0.0.1:${ports[count + i]}`).join(",");
    const nodes: KafkaNode[] = [];
    for (let i = 0; i < count; i++) {
      const data = join(dir, `node-${i + 1}`);
      await mkdir(data, { recursive: true });
      const address = `127.0.0.1:${ports[i]}`;
      const own = {
        "node.id": `${i + 1}`,
        "controller.quorum.voters": voters,
        listeners: `PLAINTEXT://${address},CONTROLLER://127.0.0.1:${ports[count + i]}`,
        "advertised.listeners": `PLAINTEXT://${address}`,
        "log.dirs": join(data, "log"),
      };
      const file = join(data, "server.properties");
      const all = { ...defaults(count), ...own, ...options.properties };
      await writeFile(
        file,
        Object.entries(all)
          .map(([key, value]) => `${key}=${value}\n`)
          .join(""),
      );
      const log4j = join(data, "log4j2.properties");
      await writeFile(log4j, LOG4J);
      const classPath = ["-cp", `${jars}/*`];
      await run(java, [
        ...QUICK,
        ...classPath,
        `-Dlog4j2.configurationFile=${log4j}`,
        "kafka.tools.StorageTool",
        "format",
        "-t",
        CLUSTER_ID,
        "-c",
        file,
      ]);
      const heap = options.heapMiB ?? 512;
      const args = [
        `-Xmx${heap}m`,
        `-Xms${heap}m`,
        "-XX:+UseG1GC",
        ...(options.jvm ?? []),
        `-Dlog4j2.configurationFile=${log4j}`,
        ...classPath,
        "kafka.Kafka",
        file,
      ];
      nodes.push(cleanUp.use(new KafkaNode(data, address, { program: java, args })));
    }
    // One controller alone elects nobody.
    await Promise.all(nodes.map((node) => node.start()));
    return {
      nodes,
      addresses: nodes.map(({ address }) => address),
      jars,
      [Symbol.asyncDispose]: () => cleanUp.disposeAsync(),
    };
  } catch (error) {
    await cleanUp.disposeAsync();
    throw error;
  }
}

function defaults(nodes: number): Record<string, string> {
  const replicas = `${Math.min(3, nodes)}`;
  const inSync = nodes >= 3 ? "2" : "1";
  return {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "default.replication.factor": replicas,
    "min.insync.replicas": inSync,
    "offsets.topic.replication.factor": replicas,
    "offsets.topic.num.partitions": "8",
    "transaction.state.log.replication.factor": replicas,
    "transaction.state.log.min.isr": inSync,
    "transaction.state.log.num.partitions": "8",
    "share.coordinator.state.topic.replication.factor": replicas,
    "share.coordinator.state.topic.min.isr": inSync,
    "group.initial.rebalance.delay.ms": "0",
    // A receive buffer of a fixed size stalls large requests on loopback.
    "socket.receive.buffer.bytes": "-1",
    "socket.send.buffer.bytes": "-1",
    "replica.socket.receive.buffer.bytes": "-1",
  };
}

const LOG4J = `rootLogger.level = WARN
rootLogger.appenderRefs = out
rootLogger.appenderRef.out.ref = OUT
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c %m%n
`;

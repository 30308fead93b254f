import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { cachedTool, findProgram, run, say } from "./tools.ts";

/*
 * Apache Kafka's own Java libraries from Maven Central: the client's (its message schemas and its codec lie in kafka-clients), and the server's with its tools.
 */
export const KAFKA_CLIENTS_VERSION = "4.3.1";
export const KAFKA_SERVER_VERSION = "4.3.1";
type Dependency = readonly [group: string, artifact: string, version: string];
const CLIENTS: readonly Dependency[] = [
  ["org.apache.kafka", "kafka-clients", KAFKA_CLIENTS_VERSION],
  // Its JSON converters need it and do not bring it.
  ["com.fasterxml.jackson.core", "jackson-databind", "2.20.1"],
];
const SERVER: readonly Dependency[] = [
  ["org.apache.kafka", "kafka_2.13", KAFKA_SERVER_VERSION],
  ["org.apache.kafka", "kafka-tools", KAFKA_SERVER_VERSION],
  ["org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.1"],
  ["org.apache.logging.log4j", "log4j-core", "2.25.1"],
];

export interface KafkaLibraries {
  /** All jars, for a class path. */
  readonly folder: string;
  readonly clientsJar: string;
}
/** Undefined, with a line that says why, where Maven is missing or Maven Central cannot be reached. */
export async function ensureKafkaLibraries(): Promise<KafkaLibraries | undefined> {
  try {
    const path = await mavenJars("kafka-clients", KAFKA_CLIENTS_VERSION, `kafka-clients-${KAFKA_CLIENTS_VERSION}.jar`, CLIENTS);
    return { folder: dirname(path), clientsJar: path };
  } catch (error) {
    say(`no kafka-clients ${KAFKA_CLIENTS_VERSION}: ${(error as Error).message}`);
    return undefined;
  }
}

/** Folder with the jars of Kafka's server and its tools. Throws, naming what is missing. */
export async function ensureKafkaServer(): Promise<string> {
  return dirname(await mavenJars("kafka-server", KAFKA_SERVER_VERSION, `kafka-tools-${KAFKA_SERVER_VERSION}.jar`, SERVER));
}

/** Copies artifacts of Maven Central with all that they need into the folder `name`-`version` of the cache; gives the path of `jar`, one of them. */
export async function mavenJars(name: string, version: string, jar: string, dependencies: readonly Dependency[]): Promise<string> {
  const tool = await cachedTool(name, version, jar, async (dir) => {
    const maven = findProgram("mvn", ["/usr/bin"]);
    if (maven === undefined) throw new Error("Maven is not on this machine");
    await writeFile(join(dir, "pom.xml"), pom(name, dependencies));
    await run(maven, ["-q", "-B", "dependency:copy-dependencies", `-DoutputDirectory=${dir}`], { cwd: dir });
  });
  return tool.path;
}

const pom = (name: string, dependencies: readonly Dependency[]): string => `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tools</groupId><artifactId>${name}-of-tests</artifactId><version>1</version>
  <dependencies>${dependencies
    .map(
      ([group, artifact, version]) =>
        `<dependency><groupId>${group}</groupId><artifactId>${artifact}</artifactId><version>${version}</version></dependency>`,
    )
    .join("")}</dependencies>
</project>
`;

import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { cachedTool, findProgram, run, say } from "./tools.ts";

/*
 * Apache Kafka's own Java libraries: its message schemas and its codec lie in kafka-clients.
 */
export const KAFKA_CLIENTS_VERSION = "4.3.1";
const DEPENDENCIES = [
  ["org.apache.kafka", "kafka-clients", KAFKA_CLIENTS_VERSION],
  // Its JSON converters need it and do not bring it.
  ["com.fasterxml.jackson.core", "jackson-databind", "2.20.1"],
] as const;

export interface KafkaLibraries {
  /** All jars, for a class path. */
  readonly folder: string;
  readonly clientsJar: string;
}
/** Undefined, with a line that says why, where Maven is missing or Maven Central cannot be reached. */
export async function ensureKafkaLibraries(): Promise<KafkaLibraries | undefined> {
  const maven = findProgram("mvn", ["/usr/bin"]);
  const jar = `kafka-clients-${KAFKA_CLIENTS_VERSION}.jar`;
  try {
    const tool = await cachedTool("kafka-clients", KAFKA_CLIENTS_VERSION, jar, async (dir) => {
      if (maven === undefined) throw new Error("Maven is not on this machine");
      await writeFile(join(dir, "pom.xml"), pom());
      await run(maven, ["-q", "-B", "dependency:copy-dependencies", `-DoutputDirectory=${dir}`], { cwd: dir });
    });
    return { folder: dirname(tool.path), clientsJar: tool.path };
  } catch (error) {
    say(`no kafka-clients ${KAFKA_CLIENTS_VERSION}: ${(error as Error).message}`);
    return undefined;
  }
}

const pom = (): string => `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tools</groupId><artifactId>kafka-clients-of-tests</artifactId><version>1</version>
  <dependencies>${DEPENDENCIES.map(
    ([group, artifact, version]) =>
      `<dependency><groupId>${group}</groupId><artifactId>${artifact}</artifactId><version>${version}</version></dependency>`,
  ).join("")}</dependencies>
</project>
`;

import { createHash } from "node:crypto";
import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { cachedTool, ensureKafkaServer, findProgram, KAFKA_SERVER_VERSION, mavenJars, run } from "@sluice/test-support";

/** The lines of kafka-clients that are run; the tools are of the first. */
export const JAVA_CLIENTS = { "4": KAFKA_SERVER_VERSION, "3": "3.9.2" } as const;
export type JavaLine = keyof typeof JAVA_CLIENTS;

const home = import.meta.dirname;

/** For `java -cp`: our programs, Kafka's jars and the settings of their log. Throws, naming what is missing. */
export async function javaClassPath(line: JavaLine): Promise<string> {
  const server = await ensureKafkaServer();
  const jars = line === "4" ? server : await olderClients();
  return [await compiled(server), home, join(jars, "*")].join(":");
}
async function olderClients(): Promise<string> {
  const version = JAVA_CLIENTS["3"];
  const jar = await mavenJars("kafka-clients", version, `kafka-clients-${version}.jar`, [
    ["org.apache.kafka", "kafka-clients", version],
    ["com.fasterxml.jackson.core", "jackson-databind", "2.20.1"],
    ["org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.1"],
    ["org.apache.logging.log4j", "log4j-core", "2.25.1"],
  ]);
  return dirname(jar);
}
/** Compiled once for each state of the sources. */
async function compiled(jars: string): Promise<string> {
  const sources = readdirSync(home).filter((name) => name.endsWith(".java"));
  const hash = createHash("sha256");
  for (const name of sources) hash.update(readFileSync(join(home, name)));
  const tool = await cachedTool("interop-java", hash.digest("hex").slice(0, 12), "Mains.class", async (dir) => {
    const javac = findProgram("javac", ["/usr/bin"]);
    if (javac === undefined) throw new Error("javac (a JDK 17) is not on this machine");
    await run(javac, ["-d", dir, "-cp", join(jars, "*"), ...sources.map((name) => join(home, name))]);
  });
  return dirname(tool.path);
}

/** What a short run needs: no optimizing compiler, no collector with threads of its own. */
const JVM = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx512m"];

export interface JavaProcess extends AsyncDisposable {
  readonly child: ChildProcessByStdio<Writable, Readable, Readable>;
  /** The end of what went to standard error. */
  readonly errors: () => string;
  /** Resolves with the exit code, or the signal's name. */
  readonly done: Promise<number | string>;
}
const ERROR_CHARS = 20_000;

/** Starts a program; each line of its output goes to `onLine`. */
export async function startJava(
  line: JavaLine,
  main: string,
  args: readonly string[],
  onLine: (text: string) => void,
  timeoutMs: number,
): Promise<JavaProcess> {
  const [program = "java", ...words] = await javaCommand(line, main);
  const child = spawn(program, [...words, ...args], {
    stdio: ["pipe", "pipe", "pipe"],
    timeout: timeoutMs,
    killSignal: "SIGKILL",
  });
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => void (errors = (errors + text).slice(-ERROR_CHARS)));
  child.stdin.on("error", () => undefined);
  const lines = createInterface({ input: child.stdout, crlfDelay: Infinity });
  lines.on("line", onLine);
  const closed = once(lines, "close");
  const done = once(child, "exit").then(async ([code, signal]) => {
    await closed;
    return (code ?? signal) as number | string;
  });
  return {
    child,
    errors: () => errors,
    done,
    async [Symbol.asyncDispose]() {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
      await done;
    },
  };
}

export interface Answer {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  readonly ms: number;
}
const CALL_MS = 120_000;

/** Kafka's command line programs, one after the other in one JVM. */
export class Mains implements AsyncDisposable {
  readonly #java: JavaProcess;
  readonly #answers: ((line: string) => void)[];

  private constructor(java: JavaProcess, answers: ((line: string) => void)[]) {
    this.#java = java;
    this.#answers = answers;
  }
  static async start(timeoutMs: number): Promise<Mains> {
    const answers: ((line: string) => void)[] = [];
    return new Mains(await startJava("4", "Mains", [], (line) => answers.shift()?.(line), timeoutMs), answers);
  }
  /** Runs a program to its end. Calls must not overlap. */
  async call(main: string, args: readonly string[], input = ""): Promise<Answer> {
    const answer = new Promise<string>((resolve) => this.#answers.push(resolve));
    this.#java.child.stdin.write(`${JSON.stringify({ main, args, input })}\n`);
    const ended = this.#java.done.then((code) => {
      throw new Error(`the JVM ended with ${code} in ${main}: ${this.#java.errors()}`);
    });
    ended.catch(() => undefined);
    const timer = AbortSignal.timeout(CALL_MS);
    const late = once(timer, "abort").then(() => {
      throw new Error(`${main} ${args.join(" ")}: no end within ${CALL_MS} ms`);
    });
    late.catch(() => undefined);
    return JSON.parse(await Promise.race([answer, ended, late])) as Answer;
  }
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#java[Symbol.asyncDispose]();
  }
}

/** The words of a command that runs one of our programs: `java ... MAIN`. */
export async function javaCommand(line: JavaLine, main: string): Promise<readonly string[]> {
  return [findProgram("java", ["/usr/bin"]) ?? "java", ...JVM, "-cp", await javaClassPath(line), main];
}

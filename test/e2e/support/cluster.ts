import { cp, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { clusterUp, type ClusterHandle, type ClusterUpOptions } from "@sluice/cli";
import { connect, type ConnectOptions, type Sluice } from "@sluice/client";
import { BrokerService, type DescribeBrokerResponse } from "@sluice/proto/internal/v1/broker";
import { SegmentStoreService, type DescribeNodeResponse } from "@sluice/proto/internal/v1/segment_store";
import { createRpcClient } from "@sluice/rpc";
import { systemClock } from "@sluice/runtime";
import { mountDisks } from "./disks.ts";
import { compileCache, moreNodeOptions } from "./environment.ts";
import { ensureEtcd34, say, startS3, tempDir } from "@sluice/test-support";

export interface TestClusterOptions extends Partial<Omit<ClusterUpOptions, "dir" | "objectStore" | "credentials" | "etcd">> {
  readonly name: string;
  /** A real S3 server for the history; default a folder. */
  readonly s3?: boolean;
  /** Every storage node has a file system of its own of this size, in memory: it can fill up. Needs root on Linux (`canMount`). */
  readonly storeDiskBytes?: number;
}

const LOG_LINES = 4;
const WARNINGS = 12;
const LINE_CHARS = 400;
const CALL_TIMEOUT_MS = 5_000;
/** As `cluster up` has it when nothing is said. */
const STORES = 4;
/** What a service logs when it was about to end for a reason that nobody has foreseen. */
const FATAL = /"(?:uncaught exception|unhandled rejection)"|invariant|FATAL ERROR|Uncaught/;

/** Loaded into every process. */
const preloads = [new URL("./poison-slabs.ts", import.meta.url).href, new URL("./keep-compiled.ts", import.meta.url).href];

/** Sets the environment of all processes that this one starts from now on; those that are started again later belong to them. */
function prepareServices(): void {
  const missing = preloads.filter((url) => !(process.env["NODE_OPTIONS"] ?? "").includes(url));
  process.env["NODE_OPTIONS"] = moreNodeOptions(...missing.map((url) => `--import ${url}`));
  process.env["NODE_COMPILE_CACHE"] = compileCache();
}

/** A cluster of processes in a folder of its own, which goes with it. */
export class TestCluster {
  readonly handle: ClusterHandle;
  readonly #cleanUp: AsyncDisposableStack;
  #failed = false;

  private constructor(handle: ClusterHandle, cleanUp: AsyncDisposableStack) {
    this.handle = handle;
    this.#cleanUp = cleanUp;
  }
  static async start(options: TestClusterOptions): Promise<TestCluster> {
    const { name, s3: wantsS3, storeDiskBytes, ...rest } = options;
    const cleanUp = new AsyncDisposableStack();
    try {
      prepareServices();
      const dir = cleanUp.use(await tempDir(`e2e-${name}`)).path;
      if (storeDiskBytes !== undefined) await mountDisks(dir, rest.stores ?? STORES, storeDiskBytes, cleanUp);
      const s3 = wantsS3 === true ? cleanUp.use(await startS3()) : undefined;
      const etcd = (await ensureEtcd34()).path;
      const store = s3 === undefined ? {} : { objectStore: s3.url, credentials: { accessKey: s3.accessKey, secretKey: s3.secretKey } };
      const handle = cleanUp.use(await clusterUp({ dir, etcd, ...store, ...rest }));
      return new TestCluster(handle, cleanUp);
    } catch (error) {
      await cleanUp.disposeAsync();
      throw error;
    }
  }

  /** gRPC endpoints of the proxies. */
  get proxies(): string[] {
    return this.handle.spec.proxies.map((proxy) => proxy.grpc);
  }
  /** Kafka addresses of the proxies. */
  get kafka(): string[] {
    return this.handle.spec.proxies.map((proxy) => proxy.kafka);
  }
  pid(id: string): number {
    return this.handle.spec.processes[id]?.pid ?? 0;
  }
  connect(options: Partial<ConnectOptions> = {}): Promise<Sluice> {
    return connect({ endpoints: this.proxies, ...options });
  }

  /**
   * A part of a test. When it fails the last lines of every process are printed; a process that ended for a reason that nobody has
   * foreseen fails it too.
   */
  async run<T>(part: () => Promise<T>): Promise<T> {
    try {
      const result = await part();
      const fatal = await this.fatalLines();
      if (fatal.length > 0) throw new Error(`processes failed:\n${fatal.join("\n")}`);
      return result;
    } catch (error) {
      this.#failed = true;
      await this.printLogs();
      throw error;
    }
  }
  async log(id: string): Promise<string[]> {
    const text = await readFile(join(this.handle.dir, "logs", `${id}.log`), "utf8").catch(() => "");
    return text.trimEnd().split("\n");
  }
  async fatalLines(): Promise<string[]> {
    const out: string[] = [];
    for (const id of Object.keys(this.handle.spec.processes))
      if (!id.startsWith("etcd")) for (const line of await this.log(id)) if (FATAL.test(line)) out.push(`${id}: ${line.slice(0, 1_000)}`);
    return out;
  }
  /** The last lines of every process, and its last warnings. */
  async printLogs(): Promise<void> {
    for (const id of Object.keys(this.handle.spec.processes)) {
      const lines = await this.log(id);
      const warnings = lines.slice(0, -LOG_LINES).filter((line) => /"level":[4-6]0/.test(line));
      const shown = [...warnings.slice(-WARNINGS), ...lines.slice(-LOG_LINES)];
      say(`--- ${id}\n${shown.map((line) => line.slice(0, LINE_CHARS)).join("\n")}`);
    }
  }

  async describeStore(id: string): Promise<DescribeNodeResponse> {
    const entry = this.handle.spec.stores.find((store) => store.id === id);
    const client = createRpcClient(SegmentStoreService, entry?.rpc ?? "", { clock: systemClock });
    try {
      return await client.describeNode({}, { timeoutMs: CALL_TIMEOUT_MS });
    } finally {
      client.close();
    }
  }
  async describeBroker(id: string): Promise<DescribeBrokerResponse> {
    const entry = this.handle.spec.brokers.find((broker) => broker.id === id);
    const client = createRpcClient(BrokerService, entry?.rpc ?? "", { clock: systemClock });
    try {
      return await client.describeBroker({}, { timeoutMs: CALL_TIMEOUT_MS });
    } finally {
      client.close();
    }
  }

  /** Resident memory of a process, bytes. */
  async rssBytes(id: string): Promise<number> {
    const status = await readFile(`/proc/${this.pid(id)}/status`, "utf8");
    return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024;
  }
  /** Value of a metric, all labels that match added up. */
  async metric(id: string, name: string, labels = ""): Promise<number> {
    const { brokers, stores, proxies, controllers, coordinators } = this.handle.spec;
    const entry = [...brokers, ...stores, ...proxies, ...controllers, ...coordinators].find((one) => one.id === id);
    const text = await (await fetch(`http://${entry?.metrics}/metrics`)).text();
    let sum = 0;
    for (const line of text.split("\n"))
      if (line.startsWith(name) && /^[ {]/.test(line.slice(name.length)) && line.includes(labels))
        sum += Number(line.slice(line.lastIndexOf(" ") + 1));
    return sum;
  }

  /** Changes flags of a process for its next start. */
  async setFlags(id: string, flags: Readonly<Record<string, string>>): Promise<void> {
    const path = join(this.handle.dir, "cluster.json");
    const spec = JSON.parse(await readFile(path, "utf8")) as { processes: Record<string, { argv: string[] }> };
    const record = spec.processes[id];
    if (record === undefined) throw new Error(`no process ${id}`);
    const kept = record.argv.filter((arg) => !Object.keys(flags).some((key) => arg.startsWith(`--${key}=`)));
    record.argv = [...kept, ...Object.entries(flags).map(([key, value]) => `--${key}=${value}`)];
    await writeFile(path, JSON.stringify(spec, undefined, 2));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Nobody needs a neat end here; what a test did not look at must not take time.
    for (const id of Object.keys(this.handle.spec.processes)) await this.handle.kill(id).catch(() => undefined);
    const keep = process.env["SLUICE_TEST_LOGS"];
    if (keep !== undefined) await cp(join(this.handle.dir, "logs"), join(keep, basename(this.handle.dir)), { recursive: true });
    else if (this.#failed) say("all logs of the next run: SLUICE_TEST_LOGS=FOLDER");
    await this.#cleanUp.disposeAsync();
  }
}

/** Waits until `holds` is true; throws with `what`, and the text that it gave instead of true, when it is not in time. Errors count as false. */
export async function until(what: string, timeoutMs: number, holds: () => Promise<boolean | string> | boolean | string): Promise<void> {
  let last: unknown;
  for (const endMs = performance.now() + timeoutMs; ; await sleep(50)) {
    try {
      last = await holds();
      if (last === true) return;
    } catch (error) {
      last = error;
    }
    if (performance.now() > endMs)
      throw new Error(`not within ${timeoutMs} ms: ${what}${typeof last === "string" ? `: ${last}` : ""}`, { cause: last });
  }
}

/** Creates a topic and waits until every partition has an owner. */
export async function createTopic(
  client: Sluice,
  name: string,
  partitions: number,
  config: Readonly<Record<string, string>> = {},
): Promise<void> {
  await client.admin.createTopic({ name, partitions, config });
  await until(`all partitions of ${name} are served`, 20_000, async () => {
    const { partitionDetails } = await client.admin.describeTopic(name, { includePartitions: true });
    return partitionDetails.length === partitions && partitionDetails.every((p) => p.owner !== "" && p.phase === "OPEN");
  });
}

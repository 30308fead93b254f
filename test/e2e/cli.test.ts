import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { codeOf } from "@sluice/core/model";
import { ProduceService } from "@sluice/proto/v1/produce";
import { createRpcClient } from "@sluice/rpc";
import { ensureEtcd34, tempDir, type TempDir } from "@sluice/test-support";
import { until } from "./support/cluster.ts";
import { sluice, startSluice } from "./support/sluice-command.ts";

interface Entry {
  readonly id: string;
  readonly pid: number;
  readonly zone?: string;
}
interface ClusterJson {
  readonly proxies: readonly (Entry & { readonly grpc: string; readonly metrics: string })[];
  readonly brokers: readonly (Entry & { readonly link: string; readonly rpc: string; readonly metrics: string })[];
  readonly stores: readonly (Entry & { readonly link: string; readonly rpc: string; readonly metrics: string })[];
  readonly controllers: readonly Entry[];
  readonly coordinators: readonly Entry[];
  readonly etcd: readonly (Entry & { readonly client: string })[];
}
interface Line {
  readonly partition: number;
  readonly offset: number;
  readonly timestamp: number;
  readonly key: unknown;
  readonly value: unknown;
  readonly headers: unknown;
}

let temp: TempDir;
let dir = "";
let endpoint = "";
const cluster = async (): Promise<ClusterJson> => JSON.parse(await readFile(join(dir, "cluster.json"), "utf8")) as ClusterJson;
const onCluster = (verb: string, ...ids: string[]) => sluice(["cluster", verb, "--dir", dir, ...ids]);
const run = (args: readonly string[], input?: string | Uint8Array) => sluice(args, { endpoint, ...(input !== undefined && { input }) });
async function ok(args: readonly string[], input?: string | Uint8Array): Promise<string> {
  const result = await run(args, input);
  expect({ args, ...result }).toMatchObject({ code: 0 });
  return result.out;
}
const messageOf = (error: unknown): string => (error as { message?: string } | undefined)?.message ?? "stored";
const jsonl = (text: string): Line[] =>
  text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Line);
/** A zombie has ended: in a container the first process may take its time to collect it. */
const alive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return !/^\d+ \(.*\) Z/.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch (error) {
    // No /proc on this system: the signal was answered, so the process is there.
    return (error as NodeJS.ErrnoException).code === "ENOENT" && process.platform !== "linux";
  }
};

beforeAll(async () => {
  temp = await tempDir("cli");
  dir = join(temp.path, "cluster");
  const etcd = (await ensureEtcd34()).path;
  const up = await sluice(["cluster", "up", "--dir", dir, "--etcd", etcd, "--proxies", "1", "--brokers", "1", "--stores", "3"]);
  expect(up).toMatchObject({ code: 0, out: `${join(dir, "cluster.json")}\n` });
  endpoint = (await cluster()).proxies[0]!.grpc;
}, 120_000);
afterAll(async () => {
  if (dir !== "") await onCluster("down");
  await temp?.[Symbol.asyncDispose]();
}, 60_000);

describe("topics and status", () => {
  test("create, list, describe, delete, and what goes wrong", async () => {
    await ok(["topic", "create", "one", "--partitions", "3", "--config", "retention.ms=3600000"]);
    const again = await run(["topic", "create", "one", "--partitions", "3"]);
    expect(again.code).toBe(1);
    expect(again.err).toContain("TOPIC_EXISTS");
    await ok(["topic", "create", "one", "--partitions", "3", "--if-not-exists"]);
    expect(await run(["topic", "create", "two", "--partitions", "1", "--config", "nonsense=1"])).toMatchObject({ code: 2, out: "" });
    const [listed] = JSON.parse(await ok(["topic", "list", "-o", "json"])) as { name: string; partitions: number }[];
    expect(listed).toMatchObject({ name: "one", partitions: 3 });
    const described = JSON.parse(await ok(["topic", "describe", "one", "-o", "jsonl"])) as Record<string, unknown>;
    expect(described).toMatchObject({ name: "one", config: { "retention.ms": "3600000" } });
    expect(described["partitionDetails"]).toMatchObject([{ owner: "broker-1", phase: "OPEN", endOffset: 0 }, {}, {}]);
    expect(await ok(["topic", "describe", "one"])).toContain("broker-1");
    const alter = async (...args: string[]) =>
      JSON.parse(await ok(["topic", "alter", "one", ...args, "-o", "jsonl"])) as { partitions: number; config: Record<string, string> };
    const altered = await alter("--partitions", "5", "--config", "segment.ms=60000", "--delete-config", "retention.ms");
    expect(altered).toMatchObject({ partitions: 5, config: { "segment.ms": "60000" } });
    expect(altered.config["retention.ms"]).not.toBe("3600000");
    expect(await ok(["topic", "alter", "one", "--partitions", "6"])).toBe("altered one: 6 partitions\n");
    // A wrong number of partitions is found before the configuration is touched.
    const refused = await run(["topic", "alter", "one", "--partitions", "2", "--config", "segment.ms=70000"]);
    expect([refused.code, refused.err]).toEqual([
      2,
      expect.stringContaining("6 partitions; they can only become more, and 2 were asked for"),
    ]);
    expect(await run(["topic", "alter", "one", "--config", "nonsense=1"])).toMatchObject({ code: 2, out: "" });
    const after = JSON.parse(await ok(["topic", "describe", "one", "-o", "jsonl"])) as Record<string, unknown>;
    expect(after).toMatchObject({ partitions: 6, config: { "segment.ms": "60000" } });
    expect((after["partitionDetails"] as { phase: string }[]).map(({ phase }) => phase)).toEqual(Array(6).fill("OPEN"));
    await ok(["topic", "delete", "one"]);
    expect(await run(["topic", "describe", "none"])).toMatchObject({ code: 1, out: "" });
    await ok(["topic", "delete", "none", "--if-exists"]);
  }, 60_000);
  test("status names all members", async () => {
    const status = JSON.parse(await ok(["status", "-o", "json"])) as { members: { id: string }[]; controller: string };
    expect(status.members.map((member) => member.id).toSorted()).toEqual(
      ["broker-1", "controller-1", "coordinator-1", "proxy-1", "store-1", "store-2", "store-3"].toSorted(),
    );
    expect(status.controller).toBe("controller-1");
  }, 30_000);
});

describe("produce and consume", () => {
  test("every kind of record survives consume | produce --jsonl, with its partition", async () => {
    await ok(["topic", "create", "from", "--partitions", "2"]);
    await ok(["topic", "create", "to", "--partitions", "2"]);
    const lines = [
      { partition: 0, timestamp: 1_764_437_000_000, key: "k", value: "v", headers: [["h", "x"]] },
      { partition: 1, timestamp: 1_764_437_000_001, key: null, value: { base64: "/wA=" }, headers: [] },
      {
        partition: 0,
        timestamp: 1_764_437_000_002,
        key: { base64: "gA==" },
        value: null,
        headers: [
          ["n", null],
          ["b", { base64: "/w==" }],
        ],
      },
      { partition: 1, timestamp: 1_764_437_000_003, key: "", value: "", headers: [] },
      // What a client stores that knows no time.
      { partition: 1, timestamp: -1, key: "timeless", value: "v", headers: [] },
    ];
    await ok(["produce", "from", "--jsonl"], lines.map((line) => JSON.stringify(line)).join("\n"));
    const first = await ok(["consume", "from", "--exit-on-end", "-o", "jsonl"]);
    const byPlace = (text: string) => jsonl(text).toSorted((a, b) => a.partition - b.partition || a.offset - b.offset);
    expect(byPlace(first).map(({ partition, timestamp, key, value, headers }) => ({ partition, timestamp, key, value, headers }))).toEqual([
      lines[0],
      lines[2],
      lines[1],
      lines[3],
      lines[4],
    ]);
    await ok(["produce", "to", "--jsonl"], first);
    const second = await ok(["consume", "to", "--exit-on-end", "-o", "jsonl"]);
    expect(byPlace(second)).toEqual(byPlace(first).map((line) => ({ ...line, topic: "to" })));
  }, 60_000);
  test("lines, keys, headers; from and until", async () => {
    await ok(["topic", "create", "lines", "--partitions", "1"]);
    const file = join(temp.path, "lines.txt");
    await writeFile(file, "a:1\nno key\n\nb:2:3");
    await ok(["produce", "lines", "--file", file, "--key-separator", ":", "--header", "h=1", "--header", "g=x=y"]);
    const all = jsonl(await ok(["consume", "lines", "--exit-on-end", "-o", "jsonl"]));
    expect(all.map(({ key, value }) => [key, value])).toEqual([
      ["a", "1"],
      [null, "no key"],
      [null, ""],
      ["b", "2:3"],
    ]);
    expect(all[0]!.headers).toEqual([
      ["h", "1"],
      ["g", "x=y"],
    ]);
    expect(await ok(["consume", "lines", "--from", "1", "--until", "3"])).toBe("no key\n\n");
    expect(await ok(["consume", "lines", "--from", "earliest", "--until", "end", "--partition", "0"])).toBe("1\nno key\n\n2:3\n");
    expect(await ok(["consume", "lines", "--from", `@${all[3]!.timestamp + 60_000}`, "--exit-on-end"])).toBe("");
    expect(await ok(["consume", "lines", "--until", `@${new Date(all[0]!.timestamp).toISOString()}`])).toBe("");
    for (const bound of [["--exit-on-end"], ["--until", "end"], []]) {
      const beyond = await run(["consume", "lines", "--from", "5", ...bound]);
      expect(beyond).toMatchObject({ code: 4, out: "" });
      expect(beyond.err).toContain("OFFSET_OUT_OF_RANGE");
      expect(beyond.err).toContain("--from earliest");
    }
    expect(await ok(["consume", "lines", "--from", "4", "--exit-on-end"])).toBe("");
    expect(await run(["consume", "lines", "--partition", "1"])).toMatchObject({ code: 2 });
    expect(await run(["consume", "missing", "--exit-on-end"])).toMatchObject({ code: 1, out: "" });
  }, 60_000);
  test("a reader waits for what comes, and Ctrl-C ends it in order", async () => {
    await ok(["topic", "create", "live", "--partitions", "1"]);
    const reader = startSluice(["consume", "live", "--from", "latest", "-o", "jsonl"], { endpoint });
    // Written again until it is seen: nobody outside knows when the reader has begun.
    for (let i = 0; i < 100 && !reader.out().includes("now"); i++) await ok(["produce", "live"], "now\n");
    reader.child.kill("SIGINT");
    const { code, out, err } = await reader.done;
    expect(code).toBe(0);
    expect(out).toContain('"value":"now"');
    expect(err).toContain("1 record in");
  }, 60_000);
  test("load: count, size, rate; a reader that goes away is no error", async () => {
    await ok(["topic", "create", "load", "--partitions", "4"]);
    const startMs = performance.now();
    const loaded = await run(["produce", "load", "--count", "2000", "--size", "1KiB", "--rate", "2000"]);
    expect(loaded.code).toBe(0);
    expect(loaded.err).toContain("2000 of 2000 records acknowledged");
    expect(performance.now() - startMs).toBeGreaterThan(950);
    const values = (await ok(["consume", "load", "--exit-on-end"])).trimEnd().split("\n");
    expect(new Set(values).size).toBe(2_000);
    expect(values.every((value) => value.length === 1_024)).toBe(true);
    const reader = startSluice(["consume", "load"], { endpoint });
    await once(reader.child.stdout!, "data");
    reader.child.stdout!.destroy();
    await ok(["produce", "load", "--count", "100", "--size", "64KiB"]);
    expect((await reader.done).code).toBe(0);
  }, 60_000);
  test("what is not acknowledged is told by the exit code", async () => {
    await ok(["topic", "create", "small", "--partitions", "1", "--config", "max.message.bytes=1024"]);
    const result = await run(["produce", "small"], `fits\n${"x".repeat(5_000)}\n`);
    expect(result.code).toBe(3);
    expect(result.err).toMatch(/line 2: MESSAGE_TOO_LARGE: small\/0: a batch of 50\d\d bytes for small, whose max.message.bytes is 1024/);
    expect(await ok(["consume", "small", "--exit-on-end"])).toBe("fits\n");
    const broken = await run(["produce", "small", "--jsonl"], '{"value":"v"}\n{"vaule":"v"}\n');
    expect(broken.code).toBe(3);
    expect(broken.err).toContain("line 2");
  }, 60_000);
});

describe("processes", () => {
  test("cluster.json has what other tools read", async () => {
    const { proxies, brokers, stores, controllers, coordinators, etcd } = await cluster();
    const all = [...proxies, ...brokers, ...stores, ...controllers, ...coordinators, ...etcd];
    expect(all.map((entry) => entry.id)).toEqual([
      "proxy-1",
      "broker-1",
      "store-1",
      "store-2",
      "store-3",
      "controller-1",
      "coordinator-1",
      "etcd-1",
    ]);
    expect(all.every((entry) => alive(entry.pid))).toBe(true);
    expect(new Set(stores.map((store) => store.zone))).toEqual(new Set(["a", "b", "c"]));
    const address = expect.stringMatching(/^127\.0\.0\.1:\d+$/);
    expect(proxies[0]).toMatchObject({ grpc: address, metrics: address });
    for (const node of [...brokers, ...stores]) expect(node).toMatchObject({ link: address, rpc: address, metrics: address });
    expect(etcd[0]).toMatchObject({ client: address });
  });
  test("kill, start, pause, resume, stop", async () => {
    const before = (await cluster()).stores[0]!.pid;
    expect(await onCluster("kill", "store-1")).toMatchObject({ code: 0 });
    expect(alive(before)).toBe(false);
    const gone = await sluice(["cluster", "status", "--dir", dir, "-o", "jsonl"]);
    expect(gone.out).toContain('"id":"store-1","kind":"store"');
    expect(JSON.parse(gone.out.split("\n").find((line) => line.includes('"store-1"'))!)).toMatchObject({ state: "gone", ready: false });
    expect(await onCluster("start", "store-1")).toMatchObject({ code: 0 });
    const after = (await cluster()).stores[0]!.pid;
    expect(after).not.toBe(before);
    // Nothing to do for one that runs.
    expect(await onCluster("start", "store-1")).toMatchObject({ code: 0 });
    expect((await cluster()).stores[0]!.pid).toBe(after);
    expect(await onCluster("pause", "broker-1")).toMatchObject({ code: 0 });
    expect((await onCluster("status")).out).toMatch(/broker-1 .*paused/);
    // It can neither serve nor be started, and is not waited for.
    const paused = await onCluster("start", "broker-1");
    expect([paused.code, paused.err]).toEqual([1, expect.stringMatching(/broker-1 .* is paused.*\n.* cluster resume --dir .* broker-1/)]);
    expect(await onCluster("resume", "broker-1")).toMatchObject({ code: 0 });
    expect(await onCluster("stop", "broker-1")).toMatchObject({ code: 0 });
    expect(await onCluster("start", "broker-1")).toMatchObject({ code: 0 });
    expect(await onCluster("kill", "store-9")).toMatchObject({ code: 2 });
  }, 120_000);
  test("with one storage node left everybody is told why nothing is stored, and how much was not", async () => {
    await ok(["topic", "create", "starved", "--partitions", "1"]);
    await ok(["produce", "starved"], "zero\n");
    expect(await onCluster("kill", "store-2", "store-3")).toMatchObject({ code: 0 });
    const client = createRpcClient(ProduceService, endpoint);
    const record = { value: Buffer.from("unary"), headers: [], timestampMs: 0n };
    const request = { topic: "starved", partition: 0, data: { case: "records" as const, value: { records: [record] } } };
    try {
      const producer = startSluice(["produce", "starved"], { endpoint });
      producer.child.stdin!.write("one\ntwo\n");
      const hasty = startSluice(["produce", "starved"], { endpoint });
      hasty.child.stdin!.write("three\n");
      // The first may have been begun before the broker knew.
      await until("the reason is told", 15_000, async () => {
        const error: unknown = await client.produce(request, { timeoutMs: 2_000 }).catch((e: unknown) => e);
        return codeOf(error) === "NOT_ENOUGH_REPLICAS" || `${codeOf(error)}: ${messageOf(error)}`;
      });
      const late: unknown = await client.produce(request, { timeoutMs: 1_000 }).catch((e: unknown) => e);
      expect([codeOf(late), messageOf(late)]).toEqual(["NOT_ENOUGH_REPLICAS", expect.stringContaining("Fewer than two storage nodes")]);
      await until("status shows it", 15_000, async () => {
        const { out } = await run(["status"]);
        return out.includes("take no records: storage nodes 1 of at least 2 (NOT_ENOUGH_REPLICAS)") || out;
      });
      // Both mind interrupts, and have read their records.
      for (const one of [producer, hasty]) await one.until("nothing was acknowledged for");
      producer.child.kill("SIGINT");
      await producer.until("interrupted: 2 records are not acknowledged yet");
      const { code, err } = await producer.done;
      expect(code).toBe(130);
      expect(err).toContain("0 of 2 records acknowledged");
      expect(err).toContain("2 not acknowledged, they may or may not be stored");
      hasty.child.kill("SIGINT");
      await hasty.until("interrupted: 1 record is");
      hasty.child.kill("SIGINT");
      const end = await hasty.done;
      expect([end.code, end.err]).toEqual([130, expect.stringContaining("1 not acknowledged")]);
    } finally {
      client.close();
      expect(await onCluster("start", "store-2", "store-3")).toMatchObject({ code: 0 });
    }
    await ok(["produce", "starved"], "last\n");
    expect(await ok(["consume", "starved", "--exit-on-end"])).toMatch(/^zero\n[^]*last\n$/);
  }, 120_000);
  test("a stranger that got the number of a process that has gone is left alone", async () => {
    const stranger = spawn("sleep", ["60"], { stdio: "ignore" });
    try {
      await once(stranger, "spawn");
      await onCluster("kill", "proxy-1");
      const path = join(dir, "cluster.json");
      const spec = JSON.parse(await readFile(path, "utf8")) as { processes: Record<string, { pid: number }> };
      spec.processes["proxy-1"]!.pid = stranger.pid!;
      await writeFile(path, JSON.stringify(spec));
      for (const verb of ["kill", "stop"]) expect(await onCluster(verb, "proxy-1")).toMatchObject({ code: 0 });
      expect(await onCluster("pause", "proxy-1")).toMatchObject({ code: 1 });
      expect(stranger.signalCode).toBeNull();
      expect(stranger.exitCode).toBeNull();
    } finally {
      stranger.kill("SIGKILL");
    }
    expect(await onCluster("start", "proxy-1")).toMatchObject({ code: 0 });
    await ok(["topic", "list"]);
  }, 60_000);
  test("without etcd nothing is started, and what to do is told at once; with it given too, it comes first", async () => {
    expect(await onCluster("kill", "etcd-1", "coordinator-1")).toMatchObject({ code: 0 });
    const startMs = performance.now();
    const lacking = await onCluster("start", "coordinator-1");
    expect(performance.now() - startMs).toBeLessThan(10_000);
    expect([lacking.code, lacking.err]).toEqual([1, expect.stringMatching(/etcd-1 does not run.*\n.* cluster start --dir .* etcd-1/)]);
    // What runs goes on, and says that it knows nothing newer.
    await until("status says that it is the last known", 15_000, async () => {
      const { code, err } = await run(["status"]);
      return (code === 0 && err.includes("The metadata store does not answer the server: this is the last that it knew")) || err;
    });
    expect(JSON.parse(await ok(["status", "-o", "json"]))).toMatchObject({ metadataStale: true });
    expect(await onCluster("start", "coordinator-1", "etcd-1")).toMatchObject({ code: 0 });
    await until("status is fresh again", 15_000, async () => (await run(["status"])).err === "");
  }, 60_000);
  test("with etcd paused the way on is another one", async () => {
    expect(await onCluster("kill", "coordinator-1")).toMatchObject({ code: 0 });
    expect(await onCluster("pause", "etcd-1")).toMatchObject({ code: 0 });
    const paused = await onCluster("start", "coordinator-1");
    expect([paused.code, paused.err]).toEqual([1, expect.stringMatching(/etcd-1 is paused.*\n.* cluster resume --dir .* etcd-1/)]);
    expect(await onCluster("resume", "etcd-1")).toMatchObject({ code: 0 });
    expect(await onCluster("start", "coordinator-1")).toMatchObject({ code: 0 });
  }, 60_000);
  test("up with some members running starts the others and leaves those alone; with one that is paused it starts nothing", async () => {
    const before = await cluster();
    expect(await onCluster("kill", "store-1", "broker-1")).toMatchObject({ code: 0 });
    expect(await onCluster("pause", "store-2")).toMatchObject({ code: 0 });
    const paused = await onCluster("up");
    expect([paused.code, paused.err]).toEqual([1, expect.stringContaining(`store-2 (pid ${before.stores[1]!.pid})`)]);
    expect(paused.err).toMatch(/cluster resume --dir \S+ store-2; or end all: .* cluster down --dir/);
    expect(await onCluster("resume", "store-2")).toMatchObject({ code: 0 });
    const up = await onCluster("up");
    expect(up).toMatchObject({ code: 0 });
    expect(up.err).toContain(`store-2 runs already (pid ${before.stores[1]!.pid})`);
    const after = await cluster();
    expect(after.stores[0]!.pid).not.toBe(before.stores[0]!.pid);
    for (const kind of ["proxies", "controllers", "coordinators", "etcd"] as const)
      expect(after[kind].map((entry) => entry.pid)).toEqual(before[kind].map((entry) => entry.pid));
    expect(after.stores.slice(1)).toEqual(before.stores.slice(1));
  }, 120_000);
  test("down ends all of them; up brings the same cluster back with its records", async () => {
    const pids = Object.values(await cluster())
      .filter((part): part is Entry[] => Array.isArray(part))
      .flat()
      .map((entry) => entry.pid);
    expect(await onCluster("down")).toMatchObject({ code: 0 });
    expect(pids.filter(alive)).toEqual([]);
    expect(await onCluster("down")).toMatchObject({ code: 0, err: expect.stringContaining("no process of") });
    // What the folder holds need not be said again, and nothing else may be said.
    const other = await onCluster("up", "--stores", "4");
    expect([other.code, other.err]).toEqual([2, expect.stringContaining(`--stores is 4, and the cluster in ${dir} was made with 3`)]);
    expect(await onCluster("up")).toMatchObject({ code: 0 });
    expect((await cluster()).proxies[0]!.grpc).toBe(endpoint);
    expect((await ok(["consume", "load", "--exit-on-end"])).trimEnd().split("\n")).toHaveLength(2_100);
  }, 120_000);
});

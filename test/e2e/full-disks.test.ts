import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { setTimeout as sleep } from "node:timers/promises";
import { codeOf } from "@sluice/core/model";
import { ProduceService } from "@sluice/proto/v1/produce";
import { createRpcClient, type RpcClient } from "@sluice/rpc";
import { systemClock } from "@sluice/runtime";
import { createTopic, TestCluster, until } from "./support/cluster.ts";
import { canMount, emptyDisk, fillDisk, storeFolder } from "./support/disks.ts";
import { sluice, startSluice, type CommandResult, type RunningCommand } from "./support/sluice-command.ts";

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
const STORES = 4;
const DISK_BYTES = 24 * 1024 * 1024;
const BEFORE = 400;
/** A storage node that is asked to stop has nothing to wait for: well below the 10 s of a drain. */
const STOP_MS_MAX = 5_000;
const READ_MS_MAX = 10_000;
/** What goes on for as long as the disks are full is told seldom: lines of the controller's log in so many ms. */
const QUIET_LOOK_MS = 3_000;
const QUIET_LINES_MAX = 6;

/** All storage nodes run out of space under load: an operator must see it, readers must go on, and room alone must mend it. */
describe(canMount ? "full disks" : "full disks (needs root on Linux; services/segment-store/test/faults.test.ts has the parts)", () => {
  let cluster: TestCluster;
  let producer: RunningCommand;
  let client: RpcClient<typeof ProduceService>;
  const folders = (): string[] => Array.from({ length: STORES }, (_, i) => storeFolder(cluster.handle.dir, i + 1));
  const run = (...args: string[]): Promise<CommandResult> => sluice(args, { endpoint: cluster.proxies[0]! });
  const dir = (): string[] => ["--dir", cluster.handle.dir];
  const partTest = (name: string, part: () => Promise<void>, timeoutMs: number): void =>
    test(name, () => (canMount ? cluster.run(part) : Promise.resolve()), timeoutMs);
  const produceOne = (timeoutMs: number): Promise<string> => {
    const data = { case: "records" as const, value: { records: [{ value: Buffer.from("one"), headers: [], timestampMs: 0n }] } };
    return client.produce({ topic: "t", partition: 0, data }, { timeoutMs }).then(
      () => "stored",
      (error: unknown) => `${codeOf(error)}: ${messageOf(error)}`,
    );
  };

  beforeAll(async () => {
    if (!canMount) return;
    cluster = await TestCluster.start({
      name: "full-disks",
      stores: STORES,
      proxies: 1,
      storeDiskBytes: DISK_BYTES,
      config: { "journal.fileBytes": "1048576" },
    });
    client = createRpcClient(ProduceService, cluster.proxies[0]!, { clock: systemClock });
    await using sluiceClient = await cluster.connect();
    await createTopic(sluiceClient, "t", 4);
  }, 60_000);
  afterAll(async () => {
    producer?.child.kill("SIGKILL");
    client?.close();
    await cluster?.[Symbol.asyncDispose]();
  }, 30_000);

  partTest(
    "status, the command line and the call itself say why nothing is stored",
    async () => {
      const before = await sluice(["produce", "t"], {
        endpoint: cluster.proxies[0]!,
        input: Array.from({ length: BEFORE }, (_, i) => `before ${i}\n`).join(""),
      });
      expect(before).toMatchObject({ code: 0 });
      producer = startSluice(["produce", "t", "--size", "1000", "--rate", "200"], { endpoint: cluster.proxies[0]! });
      await sleep(500);
      await Promise.all(folders().map(fillDisk));
      await until("status shows the stores and the partitions", 10_000, async () => {
        const { out } = await run("status");
        const stores = out.split("\n").filter((line) => line.startsWith("segment-store") && line.includes("disk full")).length;
        return (stores === STORES && /take no records: 4 of 4 storage nodes have no room on their disks \(DISK_FULL\)/.test(out)) || out;
      });
      const { out } = await run("cluster", "status", ...dir());
      expect(
        out.split("\n").filter((line) => /^store-\d .* yes .*disk full: appends and new segments are refused/.test(line)),
      ).toHaveLength(STORES);
      await until("a call is told at its deadline", 10_000, async () => {
        const seen = await produceOne(1_500);
        return seen.startsWith("DISK_FULL: ") || seen;
      });
      await until("the command says why it waits", 10_000, () => /nothing was acknowledged for \d+ s: .*DISK_FULL/.test(producer.err()));
      expect(await cluster.metric("store-1", "sluice_store_disk_full_count")).toBe(1);
      expect(await cluster.metric("controller-1", "sluice_controller_stores_full_count")).toBe(STORES);
      const starved = await Promise.all(["broker-1", "broker-2"].map((id) => cluster.metric(id, "sluice_broker_partitions_starved_count")));
      expect(starved[0]! + starved[1]!).toBeGreaterThanOrEqual(4);
    },
    60_000,
  );

  partTest(
    "history is read to its end",
    async () => {
      const read = startSluice(["consume", "t", "--from", "earliest", "--exit-on-end"], { endpoint: cluster.proxies[0]! });
      const timer = setTimeout(() => read.child.kill("SIGKILL"), READ_MS_MAX);
      const { code, out } = await read.done;
      clearTimeout(timer);
      const values = out.split("\n").filter((line) => line.startsWith("before ")).length;
      expect({ code, values }).toEqual({ code: 0, values: BEFORE });
    },
    30_000,
  );

  partTest(
    "nobody floods the logs, and a node stops and starts",
    async () => {
      const lines = async (): Promise<number> => (await cluster.log("controller-1")).length;
      const from = await lines();
      await sleep(QUIET_LOOK_MS);
      expect((await lines()) - from).toBeLessThanOrEqual(QUIET_LINES_MAX);
      const startedMs = performance.now();
      await cluster.handle.stop("store-4");
      expect(performance.now() - startedMs).toBeLessThan(STOP_MS_MAX);
      await cluster.handle.start("store-4");
      for (let n = 1; n <= STORES; n++) {
        const surprises = (await cluster.log(`store-${n}`)).filter((line) => line.includes('"code":"INTERNAL"') || line.includes("ENOSPC"));
        expect(surprises).toEqual([]);
      }
    },
    60_000,
  );

  partTest(
    "room is all that it takes",
    async () => {
      await Promise.all(folders().map(emptyDisk));
      await until("records are stored again", 10_000, async () => {
        const seen = await produceOne(1_000);
        return seen === "stored" || seen;
      });
      await until("status is as it was", 5_000, async () => {
        const { out } = await run("status");
        return !/disk full|take no records/.test(out) || out;
      });
      producer.child.kill("SIGINT");
      const { err } = await producer.done;
      const acknowledged = Number(/(\d+) of \d+ records acknowledged/.exec(err)?.[1]);
      expect(acknowledged).toBeGreaterThan(0);
      const { code, out } = await run("consume", "t", "--from", "earliest", "--exit-on-end");
      const lines = out.trimEnd().split("\n");
      expect(code).toBe(0);
      expect(lines.filter((line) => line.startsWith("before "))).toHaveLength(BEFORE);
      expect(lines.length).toBeGreaterThanOrEqual(BEFORE + acknowledged);
    },
    60_000,
  );
});

import { describe, expect, test } from "@jest/globals";
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { mkdir, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { BatchCursor } from "@sluice/core/log";
import { instanceId, memberId } from "@sluice/core/model";
import type { LinkContext } from "@sluice/link";
import { SegmentStoreService } from "@sluice/proto/internal/v1/segment_store";
import { createRpcClient, type RpcClient } from "@sluice/rpc";
import { silentLogger, systemClock, systemRandom } from "@sluice/runtime";
import { StoreClient, timers } from "./cluster.ts";
import { batch, NO_PRODUCERS, temporaryFolder, TOPIC } from "./support.ts";

const CALL_MS = 10_000;
const PARTITIONS = 4;
const IN_FLIGHT = 40;

/** A storage node in a process of its own. */
class NodeProcess {
  readonly child: ChildProcess;
  readonly client: RpcClient<typeof SegmentStoreService>;
  readonly info: { link: string; rpc: string; incarnation: string; clusterId: string };
  private constructor(child: ChildProcess, info: NodeProcess["info"]) {
    this.child = child;
    this.info = info;
    this.client = createRpcClient(SegmentStoreService, info.rpc);
  }
  static async start(metadata: string, folder: string): Promise<NodeProcess> {
    const script = join(import.meta.dirname, "store-process.ts");
    const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", script, metadata, folder], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    let errors = "";
    child.stderr.on("data", (d: Buffer) => (errors = (errors + d.toString()).slice(-4000)));
    const exited = new Promise<never>((_resolve, reject) => child.once("exit", (code) => reject(new Error(`exit ${code}: ${errors}`))));
    exited.catch(() => undefined);
    const lines = createInterface({ input: child.stdout });
    const line = await Promise.race([new Promise<string>((resolve) => lines.once("line", resolve)), exited]);
    return new NodeProcess(child, JSON.parse(line) as NodeProcess["info"]);
  }
  async kill(): Promise<void> {
    this.client.close();
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const gone = new Promise<void>((resolve) => this.child.once("exit", () => resolve()));
    this.child.kill("SIGKILL");
    await gone;
  }
  linkContext(): LinkContext {
    return {
      clock: systemClock,
      random: systemRandom,
      logger: silentLogger,
      timers,
      identity: {
        clusterId: this.info.clusterId,
        generation: 0,
        service: "broker",
        memberId: memberId("broker-1"),
        instance: instanceId(systemRandom.uuid()),
        incarnation: "",
        zone: "a",
      },
    };
  }
}
const address = (p: number, e: number) => ({ topicId: TOPIC, partition: p, epoch: e, k: 0 });

/** Highest acknowledged offset of each partition. */
type Acked = number[];

/** Appends to all partitions, each with a window of frames, until `over`; returns what was acknowledged. */
async function load(node: NodeProcess, epochNumber: number, over: Promise<unknown>): Promise<Acked> {
  const { results } = await node.client.createSegments(
    {
      segments: Array.from({ length: PARTITIONS }, (_, p) => ({
        address: address(p, epochNumber),
        base: 0n,
        incarnation: node.info.incarnation,
        nonce: "n",
        producers: NO_PRODUCERS,
      })),
    },
    { timeoutMs: CALL_MS },
  );
  const numbers = results.map((r) => r.segmentNumber);
  const client = await StoreClient.connect(node.linkContext(), node.info.link, "log");
  const sent = numbers.map(() => -1);
  const acked: Acked = numbers.map(() => -1);
  const ended = new AbortController();
  const stop = over.then(() => ended.abort());
  while (!ended.signal.aborted && !client.link.closed) {
    for (const [p, number] of numbers.entries()) {
      while ((sent[p] as number) - (acked[p] as number) < IN_FLIGHT && client.link.writable && !client.link.closed) {
        const first = (sent[p] as number) + 1;
        client.append(number, first, first + 4, { e: epochNumber, bytes: 200 + ((first * 37) % 5000), lac: acked[p] as number });
        sent[p] = first + 4;
      }
    }
    await systemClock.sleep(1);
    for (const a of client.answers.splice(0)) {
      const p = numbers.indexOf(a.segmentNumber);
      if (a.code === 0) acked[p] = Math.max(acked[p] as number, a.durable);
    }
  }
  await stop;
  client.link.close();
  return acked;
}

/** All that was acknowledged is there, byte for byte, and the copy votes. */
async function verify(node: NodeProcess, epochNumber: number, acked: Acked): Promise<void> {
  for (const [p, durable] of acked.entries()) {
    const { results } = await node.client.fenceSegments(
      { segments: [{ address: address(p, epochNumber), epoch: epochNumber + 1, incarnation: node.info.incarnation }] },
      { timeoutMs: CALL_MS },
    );
    expect(results[0]).toMatchObject({ code: 0, trusted: true, status: "FENCED" });
    const last = Number(results[0]?.last);
    expect(last).toBeGreaterThanOrEqual(durable);
    let next = 0;
    while (next <= durable) {
      const answer = await node.client.recoveryRead(
        { address: address(p, epochNumber), epoch: epochNumber + 1, from: BigInt(next), maxBytes: 1 << 20 },
        { timeoutMs: CALL_MS },
      );
      expect(answer.code).toBe(0);
      const cursor = new BatchCursor(answer.payload);
      while (cursor.next()) {
        const offset = cursor.header.baseOffset;
        expect(offset).toBe(next);
        const frame = offset - (offset % 5);
        const expected = batch({ first: offset, epoch: epochNumber, bytes: 200 + ((frame * 37) % 5000) });
        expect(Buffer.compare(answer.payload.subarray(cursor.position, cursor.nextPosition), expected)).toBe(0);
        next = offset + 1;
      }
      cursor.expectEnd();
    }
  }
}

describe("a process that is killed under load", () => {
  test("has everything that it acknowledged when it starts again, twice over", async () => {
    await using folder = await temporaryFolder();
    const data = join(folder.path, "data");
    const metadata = join(folder.path, "meta.db");
    let node = await NodeProcess.start(metadata, data);
    try {
      for (let round = 1; round <= 2; round++) {
        const victim = node;
        const acked = await load(
          node,
          round,
          systemClock.sleep(1_000).then(() => victim.kill()),
        );
        expect(Math.min(...acked)).toBeGreaterThan(0);
        const began = performance.now();
        node = await NodeProcess.start(metadata, data);
        expect(performance.now() - began).toBeLessThan(10_000);
        await verify(node, round, acked);
      }
    } finally {
      await node.kill();
    }
  }, 60_000);
});

/** An ext4 file system in a file whose power can be cut: the shutdown ioctl without a flush of its log. */
class CutDisk {
  readonly image: string;
  readonly mount: string;
  constructor(folder: string) {
    this.image = join(folder, "image");
    this.mount = join(folder, "mount");
  }
  async make(): Promise<void> {
    await writeFile(this.image, "");
    await truncate(this.image, 256 * 1024 * 1024);
    await mkdir(this.mount);
    run("mkfs.ext4", "-q", "-F", this.image);
    this.on();
  }
  on(): void {
    run("mount", "-o", "loop", this.image, this.mount);
  }
  off(): void {
    run("umount", this.mount);
  }
  cut(): void {
    const code = "import os,sys,fcntl,struct; fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack('I', 2))";
    run("python3", "-c", code, this.mount);
  }
}
function run(command: string, ...argv: string[]): void {
  const done = spawnSync(command, argv, { encoding: "utf8" });
  if (done.status !== 0) throw new Error(`${command} ${argv.join(" ")}: ${done.error?.message ?? ""} ${done.stderr}`);
}
const canMount = process.platform === "linux" && process.getuid?.() === 0;

describe("a power cut of the disk under load", () => {
  // Elsewhere the recording disk of faults.test.ts stands in for a real file system.
  const name = canMount ? "ext4, shutdown without a log flush" : "(needs root on Linux; see faults.test.ts)";
  test(`${name}: nothing acknowledged is lost, and the node trusts itself again`, async () => {
    if (!canMount) return;
    await using folder = await temporaryFolder();
    const disk = new CutDisk(folder.path);
    await disk.make();
    const data = join(disk.mount, "data");
    const metadata = join(folder.path, "meta.db");
    let node: NodeProcess | undefined;
    try {
      for (let round = 1; round <= 2; round++) {
        node = await NodeProcess.start(metadata, data);
        const acked = await load(
          node,
          round,
          systemClock.sleep(700).then(() => disk.cut()),
        );
        await node.kill();
        disk.off();
        disk.on();
        expect(Math.min(...acked)).toBeGreaterThan(0);
        node = await NodeProcess.start(metadata, data);
        await verify(node, round, acked);
        await node.kill();
      }
    } finally {
      await node?.kill();
      disk.off();
    }
  }, 60_000);
});

/**
 * The raw probe: client -> [proxy ->] broker -> three stores with fdatasync, as bare processes, to be measured beside the product in the same
 * minutes. It bounds what a product can reach here; it is not one (no routing, index, quota, checksum or metadata work).
 */
import { fork, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { MeasuredTime, type ChainResult, type ChainSpec } from "../measure.ts";
import { AckScan, connect, FRAME_HEADER_BYTES } from "./wire.ts";

function start(args: readonly string[]): Promise<{ child: ChildProcess; port: number }> {
  return new Promise((resolve, reject) => {
    const child = fork(join(import.meta.dirname, "role.ts"), args, {
      stdio: ["ignore", "pipe", "inherit", "ipc"],
      execArgv: ["--disable-warning=ExperimentalWarning"],
    });
    child.once("exit", (code) => reject(new Error(`the probe's ${args[0]} ended with ${code}`)));
    child.stdout?.once("data", (chunk: Buffer) => resolve({ child, port: Number(chunk.toString()) }));
  });
}

/** Runs one point; `dir` is where the stores keep their journals (a real disk). */
export async function runProbe(spec: ChainSpec, dir: string): Promise<ChainResult> {
  const root = mkdtempSync(join(dir, "probe-"));
  const children: ChildProcess[] = [];
  try {
    const storePorts: number[] = [];
    for (let i = 0; i < 3; i += 1) {
      const storeDir = mkdtempSync(join(root, "store-"));
      const { child, port } = await start(["store", storeDir]);
      children.push(child);
      storePorts.push(port);
    }
    const broker = await start(["broker", ...storePorts.map(String)]);
    children.push(broker.child);
    let entry = broker.port;
    if (spec.chain === "whole") {
      const proxy = await start(["proxy", String(entry)]);
      children.push(proxy.child);
      entry = proxy.port;
    }
    return await drive(spec, entry, children);
  } finally {
    for (const child of children) {
      child.removeAllListeners("exit");
      child.kill("SIGKILL");
    }
    rmSync(root, { recursive: true, force: true });
  }
}

async function drive(spec: ChainSpec, port: number, children: readonly ChildProcess[]): Promise<ChainResult> {
  const frame = Buffer.alloc(FRAME_HEADER_BYTES + spec.batchBytes, 0x61);
  frame.writeUInt32LE(frame.length - 4, 0);
  const depth = Math.max(1, Math.floor(spec.inFlightBytes / spec.batchBytes));
  const sentAt: number[] = [];
  const time = new MeasuredTime(spec);
  const acks = new AckScan();
  let sent = 0;
  let done = 0;
  let stopped = false;
  const socket = await connect(port, (run) => {
    for (let n = acks.scan(run); n > 0; n -= 1) {
      time.acknowledged(sentAt[done % depth] as number);
      done += 1;
    }
    fill();
  });
  const fill = (): void => {
    if (stopped) return;
    socket.cork();
    while (sent - done < depth) {
      sentAt[sent % depth] = performance.now();
      socket.write(frame);
      sent += 1;
    }
    socket.uncork();
  };
  fill();
  const pids = children.map((c) => c.pid as number);
  const result = await time.run(pids, spec.batchBytes);
  stopped = true;
  socket.destroy();
  return result;
}

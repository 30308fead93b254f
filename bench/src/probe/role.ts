/**
 * One process of the raw probe: `node role.ts store DIR | broker PORT PORT PORT | proxy PORT`.
 * It does what the product's processes must do at least (scan, stamp, copy to three, group commit, acknowledge at two) and nothing else.
 */
import { closeSync, fdatasync, openSync, writeSync, writev } from "node:fs";
import type net from "node:net";
import { join } from "node:path";
import { ack, AckScan, connect, FrameScan, serve } from "./wire.ts";

const JOURNAL_BYTES = 256 * 1024 * 1024;
const GROUP_BYTES_MAX = 4 * 1024 * 1024;

function store(dir: string): void {
  const fd = openSync(join(dir, "journal"), "w");
  const zeros = Buffer.alloc(1024 * 1024);
  for (let at = 0; at < JOURNAL_BYTES; at += zeros.length) writeSync(fd, zeros, 0, zeros.length, at);
  process.on("exit", () => closeSync(fd));
  serve((socket) => {
    const scan = new FrameScan();
    let position = 0;
    let queued: Buffer[] = [];
    let queuedBytes = 0;
    let flushing = false;
    const flush = (): void => {
      if (flushing || queued.length === 0) return;
      flushing = true;
      let count = 0;
      let bytes = 0;
      while (count < queued.length && (count === 0 || bytes + (queued[count] as Buffer).length <= GROUP_BYTES_MAX))
        bytes += (queued[count++] as Buffer).length;
      const group = queued.slice(0, count);
      queued = queued.slice(count);
      queuedBytes -= bytes;
      if (position + bytes > JOURNAL_BYTES) position = 0;
      writev(fd, group, position, (error) => {
        if (error) throw error;
        position += bytes;
        fdatasync(fd, (syncError) => {
          if (syncError) throw syncError;
          let frames = 0;
          for (const run of group) frames += scan.scan(run);
          if (frames > 0) socket.write(ack(frames));
          flushing = false;
          flush();
        });
      });
    };
    return (run) => {
      queued.push(run);
      queuedBytes += run.length;
      flush();
    };
  });
}

async function broker(ports: readonly number[]): Promise<void> {
  let upstream: net.Socket | undefined;
  const durable = ports.map(() => 0);
  let committed = 0;
  const stores = await Promise.all(
    ports.map((port, i) => {
      const acks = new AckScan();
      return connect(port, (run) => {
        durable[i] = (durable[i] as number) + acks.scan(run);
        const second = [...durable].sort((a, b) => b - a)[1] as number;
        if (second > committed) {
          upstream?.write(ack(second - committed));
          committed = second;
        }
      });
    }),
  );
  let offset = 0;
  serve((socket) => {
    upstream = socket;
    const scan = new FrameScan();
    return (run) => {
      scan.scan(run, (at) => run.writeDoubleLE(offset++, at + 4));
      for (const target of stores) target.write(run);
    };
  });
}

async function proxy(port: number): Promise<void> {
  let client: net.Socket | undefined;
  const downstream = await connect(port, (run) => void client?.write(run));
  serve((socket) => {
    client = socket;
    const scan = new FrameScan();
    return (run) => {
      scan.scan(run);
      downstream.write(run);
    };
  });
}

const [role, ...args] = process.argv.slice(2);
process.on("disconnect", () => process.exit(0));
if (role === "store") store(args[0] as string);
else if (role === "broker") await broker(args.map(Number));
else if (role === "proxy") await proxy(Number(args[0]));
else throw new Error(`unknown role ${role}`);

import type { Clock, Logger } from "@sluice/runtime";
import type { ReadPath } from "./link.ts";
import { acceptingServer, acceptSocket, connectSocket, type ByteSocket, type SocketEvents } from "./socket.ts";

const PROBE_BYTES = 100_000;
/** Long: the trial is made while a process starts, perhaps with many others on a busy machine, and a wrong "no" costs speed for its whole life. */
const PROBE_TIMEOUT_MS = 20_000;
const patternAt = (i: number): number => (i % 251) + 1;

/** One end of the trial: checks each byte that comes and may echo it. */
function probeEnd(echo: boolean, done: (right: boolean) => void): SocketEvents & { socket?: ByteSocket } {
  const slab = Buffer.alloc(16 * 1024);
  let seen = 0;
  const end: SocketEvents & { socket?: ByteSocket } = {
    target: () => slab,
    onRead(bytes) {
      for (let i = 0; i < bytes; i++) if (slab[i] !== patternAt(seen + i)) return done(false);
      seen += bytes;
      if (echo) end.socket?.write([Buffer.from(slab.subarray(0, bytes))]);
      else if (seen === PROBE_BYTES) done(true);
    },
    onChunk: () => done(false),
    onConnect: () => end.socket?.write([Buffer.from(Uint8Array.from({ length: PROBE_BYTES }, (_, at) => patternAt(at)))]),
    onClose: () => done(false),
  };
  return end;
}

async function trySlabReads(clock: Clock): Promise<boolean> {
  const sockets: ByteSocket[] = [];
  let onResult: (right: boolean) => void = () => {};
  const result = new Promise<boolean>((resolve) => {
    onResult = resolve;
  });
  const timer = clock.setTimer(PROBE_TIMEOUT_MS, () => onResult(false));
  const server = acceptingServer((accepted) => {
    try {
      const end = probeEnd(true, () => onResult(false));
      end.socket = acceptSocket(accepted, end, "slab");
      sockets.push(end.socket);
    } catch {
      onResult(false);
    }
  });
  server.on("error", () => onResult(false));
  server.listen(0, "127.0.0.1", () => {
    const bound = server.address();
    if (bound === null || typeof bound === "string") return onResult(false);
    const end = probeEnd(false, onResult);
    end.socket = connectSocket({ kind: "tcp", host: "127.0.0.1", port: bound.port }, end, "slab");
    sockets.push(end.socket);
  });
  const works = await result;
  timer.cancel();
  for (const socket of sockets) socket.destroy();
  server.close();
  return works;
}

let slabReads: Promise<boolean> | undefined;
/** Whether both ways of reading into slabs work in this version of Node.js: tried once per process, on a loopback connection. */
export const slabReadsWork = (clock: Clock): Promise<boolean> => (slabReads ??= trySlabReads(clock));

let warned = false;
export const resolveReadPath = async (clock: Clock, path: ReadPath = "auto", logger?: Logger): Promise<"slab" | "data"> => {
  if (path !== "auto") return path;
  if (await slabReadsWork(clock)) return "slab";
  if (!warned) logger?.warn("slab reads do not work with this Node.js, links are slower", { version: process.version });
  warned = true;
  return "data";
};

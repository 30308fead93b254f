import type { Clock } from "@sluice/runtime";
import type { ReadPath } from "./link.ts";
import { acceptingServer, acceptSocket, connectSocket, type ByteSocket, type SocketEvents } from "./socket.ts";

const PROBE_BYTES = 100_000;
const PROBE_TIMEOUT_MS = 1_000;
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

export const resolveReadPath = async (clock: Clock, path: ReadPath = "auto"): Promise<"slab" | "data"> => {
  if (path !== "auto") return path;
  return (await slabReadsWork(clock)) ? "slab" : "data";
};

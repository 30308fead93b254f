import { randomInt } from "node:crypto";
import { createServer } from "node:net";

/**
 * Below the ephemeral ranges of Linux (32768 and up) and macOS (49152 and up): a server that is killed and started again on its port
 * must not find that an outgoing connection has taken it meanwhile.
 */
const PORT_MIN = 15_000;
const PORT_END = 32_000;
const TRIES_MAX = 100;
const given = new Set<number>();

/** A port of 127.0.0.1 that nothing listens on now, never the same one twice in this process. */
export async function freePort(): Promise<number> {
  for (let i = 0; i < TRIES_MAX; i++) {
    const port = randomInt(PORT_MIN, PORT_END);
    if (given.has(port) || !(await canListen(port))) continue;
    given.add(port);
    return port;
  }
  throw new Error(`no free port between ${PORT_MIN} and ${PORT_END} after ${TRIES_MAX} tries`);
}

export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  for (let i = 0; i < count; i++) ports.push(await freePort());
  return ports;
}

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => server.close(() => resolve(true)));
  });
}

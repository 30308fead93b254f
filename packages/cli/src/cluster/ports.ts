import { createServer, type Server } from "node:net";
import { systemRandom } from "@sluice/runtime/random";
import { CommandFailure } from "../exit.ts";

/**
 * Below the ephemeral ranges of Linux (32768 and up) and macOS (49152 and up): a process that is killed and started again on its port
 * must not find that an outgoing connection has taken it meanwhile.
 */
const PORT_MIN = 15_000;
const PORT_END = 32_000;
const TRIES_PER_PORT = 50;

/** Hands out loopback ports: in a row from `base`, or free ones. A port that is taken is no error until it is used, except with `base`. */
export async function allocatePorts(count: number, base: number | undefined): Promise<number[]> {
  const held: Server[] = [];
  const ports: number[] = [];
  try {
    if (base !== undefined) {
      for (let port = base; port < base + count; port++) {
        const server = await hold(port);
        if (server === undefined)
          throw new CommandFailure(`port ${port} is in use; choose another --port-base (${count} ports in a row are needed)`);
        held.push(server);
        ports.push(port);
      }
      return ports;
    }
    for (let tries = count * TRIES_PER_PORT; ports.length < count && tries > 0; tries--) {
      const port = PORT_MIN + systemRandom.int(PORT_END - PORT_MIN);
      const server = await hold(port);
      if (server === undefined) continue;
      held.push(server);
      ports.push(port);
    }
    if (ports.length < count) throw new CommandFailure(`no ${count} free ports between ${PORT_MIN} and ${PORT_END}`);
    return ports;
  } finally {
    // Held until all are known, so that none is given twice.
    await Promise.all(held.map((server) => new Promise((resolve) => server.close(resolve))));
  }
}
function hold(port: number): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(undefined));
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => resolve(server));
  });
}

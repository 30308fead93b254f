import { connect, createServer, type Server, type Socket } from "node:net";
import { freePort } from "./ports.ts";

export interface TcpProxy {
  /** 127.0.0.1 */
  readonly port: number;
  /** Bytes that went from the server to clients so far. */
  readonly bytesToClients: number;
  /** Breaks every connection at once; new ones pass. */
  cut(): void;
  /** Breaks every connection once so many more bytes have gone from the server to clients (in the middle of an answer), then calls `done`. */
  cutAfter(bytes: number, done?: () => void): void;
  [Symbol.asyncDispose](): Promise<void>;
}

/** A TCP proxy before a server on loopback, that cuts connections when told to. */
export async function startTcpProxy(targetPort: number): Promise<TcpProxy> {
  const proxy = new CuttingProxy(targetPort, await freePort());
  await proxy.listen();
  return proxy;
}

class CuttingProxy implements TcpProxy {
  readonly port: number;
  bytesToClients = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #cutAt = Infinity;
  #onCut: (() => void) | undefined;

  constructor(targetPort: number, port: number) {
    this.port = port;
    this.#server = createServer((client) => this.#join(client, connect(targetPort, "127.0.0.1")));
  }
  listen(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(this.port, "127.0.0.1", resolve);
    });
  }
  cut(): void {
    this.#cutAt = Infinity;
    for (const socket of this.#sockets) socket.destroy();
  }
  cutAfter(bytes: number, done?: () => void): void {
    this.#cutAt = this.bytesToClients + bytes;
    this.#onCut = done;
  }
  [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    return new Promise((resolve) => void this.#server.close(() => resolve()));
  }

  #join(client: Socket, server: Socket): void {
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    client.pipe(server);
    server.on("data", (chunk: Buffer) => this.#toClient(chunk, server, client));
    server.on("end", () => client.end());
  }

  #toClient(chunk: Buffer, server: Socket, client: Socket): void {
    const left = this.#cutAt - this.bytesToClients;
    if (chunk.length >= left) {
      this.bytesToClients += left;
      const done = this.#onCut;
      this.#onCut = undefined;
      client.write(chunk.subarray(0, left), () => {
        this.cut();
        done?.();
      });
      return;
    }
    this.bytesToClients += chunk.length;
    if (!client.write(chunk)) {
      server.pause();
      client.once("drain", () => server.resume());
    }
  }
}

import { connect, createServer, type Server, type Socket } from "node:net";
import { freePort } from "./ports.ts";

export interface TcpProxyOptions {
  /** Bytes a second in each direction, all connections together. Default: no limit. */
  readonly bytesPerSecond?: number;
}
export interface TcpProxy {
  /** 127.0.0.1 */
  readonly port: number;
  /** Bytes that went from the server to clients so far. */
  readonly bytesToClients: number;
  /** Breaks every connection at once; new ones pass. */
  cut(): void;
  /** Breaks every connection once so many more bytes have gone from the server to clients (in the middle of an answer), then calls `done`. */
  cutAfter(bytes: number, done?: () => void): void;
  /** Nothing passes any more, connections stay open and new ones are taken: packets are dropped somewhere. */
  hold(): void;
  /** What was held back goes on. */
  release(): void;
  [Symbol.asyncDispose](): Promise<void>;
}

/** A TCP proxy before a server on loopback, that cuts, holds and slows connections when told to. */
export async function startTcpProxy(targetPort: number, options: TcpProxyOptions = {}): Promise<TcpProxy> {
  const proxy = new FaultProxy(targetPort, await freePort(), options.bytesPerSecond ?? Infinity);
  await proxy.listen();
  return proxy;
}

type Direction = "toClient" | "toServer";

class FaultProxy implements TcpProxy {
  readonly port: number;
  bytesToClients = 0;
  readonly #server: Server;
  readonly #bytesPerMs: number;
  readonly #sockets = new Set<Socket>();
  /** When each direction may take the next bytes. */
  readonly #freeAtMs: Record<Direction, number> = { toClient: 0, toServer: 0 };
  #held = false;
  /** What waits for `release`. */
  #waiting: (() => void)[] = [];
  #cutAt = Infinity;
  #onCut: (() => void) | undefined;

  constructor(targetPort: number, port: number, bytesPerSecond: number) {
    this.port = port;
    this.#bytesPerMs = bytesPerSecond / 1_000;
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
  hold(): void {
    this.#held = true;
  }
  release(): void {
    this.#held = false;
    for (const pass of this.#waiting.splice(0)) pass();
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
    client.on("data", (chunk: Buffer) => this.#take(chunk, client, server, "toServer"));
    client.on("end", () => this.#whenPassing(() => server.end()));
    server.on("data", (chunk: Buffer) => this.#take(chunk, server, client, "toClient"));
    server.on("end", () => this.#whenPassing(() => client.end()));
  }
  #whenPassing(pass: () => void): void {
    if (this.#held) this.#waiting.push(pass);
    else pass();
  }

  #take(chunk: Buffer, from: Socket, to: Socket, direction: Direction): void {
    if (!this.#held) return this.#pass(chunk, from, to, direction);
    from.pause();
    this.#waiting.push(() => {
      from.resume();
      this.#pass(chunk, from, to, direction);
    });
  }
  #pass(chunk: Buffer, from: Socket, to: Socket, direction: Direction): void {
    if (direction === "toClient" && this.#cutsAt(chunk, to)) return;
    const now = performance.now();
    this.#freeAtMs[direction] = Math.max(now, this.#freeAtMs[direction]) + chunk.length / this.#bytesPerMs;
    const waitMs = this.#freeAtMs[direction] - now;
    const drained = to.write(chunk);
    if (drained && waitMs < 1) return;
    from.pause();
    const goOn = (): void => {
      if (waitMs < 1) from.resume();
      else setTimeout(() => from.resume(), waitMs);
    };
    if (drained) goOn();
    else to.once("drain", goOn);
  }
  #cutsAt(chunk: Buffer, client: Socket): boolean {
    const left = this.#cutAt - this.bytesToClients;
    if (chunk.length < left) {
      this.bytesToClients += chunk.length;
      return false;
    }
    this.bytesToClients += left;
    const done = this.#onCut;
    this.#onCut = undefined;
    client.write(chunk.subarray(0, left), () => {
      this.cut();
      done?.();
    });
    return true;
  }
}

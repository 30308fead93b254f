import { rm } from "node:fs/promises";
import { connect, type Server, type Socket } from "node:net";
import { SluiceError } from "@sluice/core/model";
import { formatAddress, parseAddress, type LinkAddress } from "./address.ts";
import { Connection } from "./connection.ts";
import type { LinkContext, LinkServer, Link, ListenOptions } from "./link.ts";
import { resolveReadPath } from "./read-path.ts";
import { acceptingServer, acceptSocket } from "./socket.ts";

export const LINK_CONNECTIONS_MAX = 4096;
/** Connections before their hello; each costs at most 64 KiB and one timer. */
export const LINK_HANDSHAKES_MAX = 256;

/** Listens for links. Rejects with INVALID_ARGUMENT when the address cannot be bound. */
export async function listenLinks(context: LinkContext, options: ListenOptions): Promise<LinkServer> {
  const address = parseAddress(options.address);
  const path = await resolveReadPath(context.clock, context.readPath, context.logger);
  const listener = new Listener(context, options, path);
  return listener.start(address);
}

class Listener implements LinkServer {
  address: string;
  readonly links = new Set<Link>();
  readonly totals = { accepted: 0, refused: 0 };
  readonly #context: LinkContext;
  readonly #options: ListenOptions;
  readonly #path: "slab" | "data";
  readonly #server: Server;
  /** All whose socket is not gone yet, the links among them. */
  readonly #connections = new Set<Connection>();
  #handshakes = 0;
  #closing: Promise<void> | undefined;
  #onEmpty: (() => void) | undefined;

  constructor(context: LinkContext, options: ListenOptions, path: "slab" | "data") {
    this.#context = context;
    this.#options = options;
    this.#path = path;
    this.address = options.address;
    this.#server = acceptingServer((socket) => this.#accept(socket));
  }
  async start(address: LinkAddress): Promise<LinkServer> {
    if (address.kind === "unix") await removeStale(address.path);
    const server = this.#server;
    await new Promise<void>((resolve, reject) => {
      server.once("error", (cause: NodeJS.ErrnoException) =>
        reject(new SluiceError("INVALID_ARGUMENT", `cannot listen on ${this.address}: ${cause.code ?? cause.message}`, { cause })),
      );
      server.listen(address.kind === "unix" ? { path: address.path } : { host: address.host, port: address.port }, resolve);
    });
    server.on("error", (err) => this.#context.logger.error("link listener failed", { address: this.address, err }));
    const bound = server.address();
    if (address.kind === "tcp" && bound !== null && typeof bound === "object") this.address = formatAddress(address.host, bound.port);
    return this;
  }
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  #accept(socket: Socket): void {
    const { connectionsMax = LINK_CONNECTIONS_MAX, handshakesMax = LINK_HANDSHAKES_MAX } = this.#options;
    if (this.#closing !== undefined || this.#connections.size >= connectionsMax || this.#handshakes >= handshakesMax) {
      this.totals.refused++;
      socket.destroy();
      return;
    }
    this.#handshakes++;
    const remote = socket.remoteAddress === undefined ? this.address : formatAddress(socket.remoteAddress, socket.remotePort ?? 0);
    const connection: Connection = new Connection({
      context: this.#context,
      side: "accept",
      address: remote,
      purpose: "log",
      handlers: this.#options.handlers,
      onEnded: (link) => void this.links.delete(link),
      ...(this.#options.purposes === undefined ? {} : { purposes: this.#options.purposes }),
      onOpened: (link) => {
        this.#handshakes--;
        this.totals.accepted++;
        this.links.add(link);
      },
      onFailed: (reason) => {
        this.#handshakes--;
        this.totals.refused++;
        // Who only looks whether the port answers, as the controller does with a suspect, leaves without a word.
        const level = connection.counters.bytesIn === 0 && reason.code === "LINK_DOWN" ? "debug" : "warn";
        this.#context.logger[level]("link refused", { peer: remote, code: reason.code, reason: reason.message });
      },
      onGone: () => {
        this.#connections.delete(connection);
        if (this.#connections.size === 0) this.#onEmpty?.();
      },
    });
    this.#connections.add(connection);
    connection.attach(acceptSocket(socket, connection, this.#path), this.#context.timers.linkHelloTimeoutMs);
  }
  async #close(): Promise<void> {
    this.#server.close();
    for (const connection of this.#connections) connection.close("SHUTTING_DOWN", "the server is going away");
    if (this.#connections.size === 0) return;
    await new Promise<void>((resolve) => {
      this.#onEmpty = resolve;
    });
  }
}

/** Removes the socket file of a dead process; a live one keeps it, and the bind fails. */
async function removeStale(path: string): Promise<void> {
  const alive = await new Promise<boolean>((resolve) => {
    const probe = connect({ path });
    probe.once("connect", () => {
      probe.destroy();
      resolve(true);
    });
    probe.once("error", (error: NodeJS.ErrnoException) => resolve(error.code !== "ECONNREFUSED"));
  });
  if (!alive) await rm(path, { force: true });
}

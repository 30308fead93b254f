import { connect, createServer, Socket, type Server } from "node:net";
import type { LinkAddress } from "./address.ts";
import type { Hold } from "./slab.ts";

/** What a connection needs of a byte stream: TCP and unix sockets here, `memoryPair` for one process. */
export interface ByteSocket {
  /** Bytes given to `write` that the kernel has not taken. */
  readonly backlogBytes: number;
  /** One `writev`. The buffers must not change until they have left; `holds` are released then. */
  write(chunks: readonly Uint8Array[], holds?: readonly Hold[]): void;
  /** Sends what is queued, then ends this direction. */
  end(): void;
  destroy(): void;
}
export interface SocketEvents {
  /** Where the next bytes are to be put. */
  target(): Buffer;
  /** Bytes were put at the start of the last target. */
  onRead(bytes: number): void;
  /** A buffer of the socket's own, for sockets that cannot read into ours. */
  onChunk(chunk: Uint8Array): void;
  onConnect(): void;
  /** Once. `code` is the system's (ECONNRESET ...), undefined when the peer ended in order. */
  onClose(code: string | undefined): void;
}

class NetSocket implements ByteSocket {
  readonly #socket: Socket;
  constructor(socket: Socket, events: SocketEvents, path: "slab" | "data") {
    this.#socket = socket;
    socket.setNoDelay(true);
    let code: string | undefined;
    socket.on("error", (error: NodeJS.ErrnoException) => {
      code ??= error.code ?? "EUNKNOWN";
    });
    socket.on("end", () => socket.destroy());
    socket.on("close", () => events.onClose(code));
    if (path === "data") socket.on("data", (chunk: Buffer) => events.onChunk(chunk));
  }
  get backlogBytes(): number {
    return this.#socket.writableLength;
  }
  write(chunks: readonly Uint8Array[], holds: readonly Hold[] = []): void {
    const socket = this.#socket;
    // Holds of what is not written are dropped, not released: nobody can tell how far the kernel is with them.
    if (socket.destroyed || !socket.writable) return;
    const written = holds.length === 0 ? undefined : (error?: Error | null) => (error ? undefined : releaseAll(holds));
    const last = chunks.length - 1;
    if (last > 0) socket.cork();
    for (let i = 0; i < last; i++) socket.write(chunks[i] as Uint8Array);
    socket.write(chunks[last] as Uint8Array, written);
    if (last > 0) socket.uncork();
  }
  end(): void {
    this.#socket.end();
  }
  destroy(): void {
    this.#socket.destroy();
  }
}

function releaseAll(holds: readonly Hold[]): void {
  for (const hold of holds) hold.release();
}

/** Where a socket puts what it reads. */
export type SocketReads = Pick<SocketEvents, "target" | "onRead">;

const onreadOf = (events: SocketReads) => ({
  buffer: () => events.target(),
  callback: (bytes: number) => {
    events.onRead(bytes);
    return true;
  },
});

export function connectSocket(address: LinkAddress, events: SocketEvents, path: "slab" | "data"): ByteSocket {
  const target = address.kind === "unix" ? { path: address.path } : { host: address.host, port: address.port };
  const socket = connect(path === "slab" ? { ...target, onread: onreadOf(events) } : target);
  socket.once("connect", () => events.onConnect());
  return new NetSocket(socket, events, path);
}

/**
 * The accepted connection as a socket that reads into slabs. `net.Server` has no `onread` option, so its handle is put into a new Socket:
 * undocumented, therefore tried out at start (read-path.ts).
 */
export function acceptSocket(accepted: Socket, events: SocketEvents, path: "slab" | "data"): ByteSocket {
  if (path === "data") {
    const socket = new NetSocket(accepted, events, path);
    accepted.resume();
    return socket;
  }
  return new NetSocket(readInto(accepted, events), events, path);
}
interface Internals {
  _handle: object | null;
  _server?: unknown;
  server?: unknown;
}
/** The same for protocols of others: `accepted` is paused and is not used any more. */
export function readInto(accepted: Socket, events: SocketReads): Socket {
  const from = accepted as unknown as Internals;
  const handle = from._handle;
  if (handle === null) {
    accepted.destroy();
    return accepted;
  }
  const options = { handle, onread: onreadOf(events), readable: true, writable: true };
  const fresh = new Socket(options as unknown as ConstructorParameters<typeof Socket>[0]);
  // The server counts its connections by this field: it moves, so that the count falls when the new socket closes.
  const to = fresh as unknown as Internals;
  to._server = from._server;
  to.server = from.server;
  from._server = null;
  from._handle = null;
  accepted.destroy();
  fresh.resume();
  return fresh;
}
/** Accepted sockets stay paused until `acceptSocket` or `readInto`. */
export const acceptingServer = (onSocket: (socket: Socket) => void): Server =>
  createServer({ pauseOnConnect: true, noDelay: true }, onSocket);

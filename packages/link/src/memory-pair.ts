import type { Clock } from "@sluice/runtime";
import type { Hold } from "./slab.ts";
import type { ByteSocket, SocketEvents } from "./socket.ts";

/** One end of a byte stream within the process. What is written arrives in a later turn of `clock`, in order. */
class MemorySocket implements ByteSocket {
  readonly #clock: Clock;
  readonly #events: SocketEvents;
  #other: MemorySocket | undefined;
  #queue: Uint8Array[] = [];
  #holds: Hold[] = [];
  #queuedBytes = 0;
  #planned = false;
  #ending = false;
  #gone = false;

  constructor(clock: Clock, events: SocketEvents) {
    this.#clock = clock;
    this.#events = events;
  }
  join(other: MemorySocket): void {
    this.#other = other;
  }
  get backlogBytes(): number {
    return this.#queuedBytes;
  }
  write(chunks: readonly Uint8Array[], holds: readonly Hold[] = []): void {
    if (this.#gone || this.#ending) return;
    this.#holds.push(...holds);
    for (const chunk of chunks) {
      this.#queue.push(chunk);
      this.#queuedBytes += chunk.length;
    }
    this.#plan();
  }
  end(): void {
    this.#ending = true;
    this.#plan();
  }
  /** As a reset: what was not delivered is lost. */
  destroy(): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#queue = [];
    this.#queuedBytes = 0;
    this.#clock.afterTurn(() => this.#events.onClose(undefined));
    this.#clock.afterTurn(() => this.#other?.destroy());
  }
  connected(): void {
    this.#clock.afterTurn(() => this.#events.onConnect());
  }
  #plan(): void {
    if (this.#planned) return;
    this.#planned = true;
    this.#clock.afterTurn(() => {
      this.#planned = false;
      this.#deliver();
    });
  }
  #deliver(): void {
    const queue = this.#queue;
    this.#queue = [];
    this.#queuedBytes = 0;
    const holds = this.#holds;
    this.#holds = [];
    for (const chunk of queue) this.#other?.take(chunk);
    for (const hold of holds) hold.release();
    if (this.#ending) this.destroy();
  }
  take(chunk: Uint8Array): void {
    if (!this.#gone) this.#events.onChunk(chunk);
  }
}

/** Two joined sockets, the connecting side first: for tests with a manual clock, and for services in one process. */
export function memoryPair(clock: Clock, connect: SocketEvents, accept: SocketEvents): readonly [ByteSocket, ByteSocket] {
  const a = new MemorySocket(clock, connect);
  const b = new MemorySocket(clock, accept);
  a.join(b);
  b.join(a);
  a.connected();
  return [a, b];
}

import type { Clock } from "@sluice/runtime";
import { notFound, throwIfEnded, unavailable, withDeadline } from "./deadline.ts";
import { checkBody, checkCall, checkKey, checkPartBytes, checkPrefix, checkRange, invalid } from "./keys.ts";
import { objectStoreLimits } from "./limits.ts";
import type { CallOptions, ObjectInfo, ObjectStore } from "./port.ts";

interface Stored {
  readonly bytes: Uint8Array;
  readonly modifiedAtMs: number;
}

/** Objects in memory: for tests, for the simulator (time comes from `clock`, order from the promises alone) and for a trial run. */
export function memoryObjectStore(options: { readonly clock: Clock; readonly bytesMax?: number }): ObjectStore {
  return new MemoryObjectStore(options.clock, options.bytesMax ?? objectStoreLimits.memoryStoreBytesDefault);
}

class MemoryObjectStore implements ObjectStore {
  readonly #clock: Clock;
  readonly #bytesMax: number;
  readonly #objects = new Map<string, Stored>();
  #bytes = 0;
  #closed = false;

  constructor(clock: Clock, bytesMax: number) {
    this.#clock = clock;
    this.#bytesMax = bytesMax;
  }

  async put(key: string, body: readonly Uint8Array[], options?: CallOptions): Promise<void> {
    checkKey(key);
    const bytes = checkBody(key, body);
    await this.#call(`put ${key}`, options, () => this.#store(key, joined(body, bytes)));
  }

  async putMultipart(
    key: string,
    body: AsyncIterable<Uint8Array>,
    options?: CallOptions & { readonly partBytes?: number },
  ): Promise<{ readonly sizeBytes: number }> {
    checkKey(key);
    checkPartBytes(key, options);
    return this.#call(`put ${key}`, options, async (signal) => {
      const pieces: Uint8Array[] = [];
      let bytes = 0;
      for await (const piece of body) {
        throwIfEnded(signal);
        bytes += piece.length;
        if (bytes > this.#bytesMax) throw this.#full(key);
        pieces.push(piece);
      }
      throwIfEnded(signal);
      this.#store(key, joined(pieces, bytes));
      return { sizeBytes: bytes };
    });
  }

  async getRange(key: string, start: number, length: number, options?: CallOptions): Promise<Uint8Array> {
    checkKey(key);
    checkRange(key, start, length);
    return this.#call(`get ${key}`, options, () => {
      const stored = this.#objects.get(key);
      if (stored === undefined) throw notFound(`memory: ${key}`);
      if (start + length > stored.bytes.length) {
        throw unavailable(`memory: ${key}: range ${start}+${length} lies outside the object of ${stored.bytes.length} bytes`);
      }
      return stored.bytes.slice(start, start + length);
    });
  }

  async head(key: string, options?: CallOptions): Promise<ObjectInfo | undefined> {
    checkKey(key);
    return this.#call(`head ${key}`, options, () => {
      const stored = this.#objects.get(key);
      return stored && { key, sizeBytes: stored.bytes.length, modifiedAtMs: stored.modifiedAtMs };
    });
  }

  async delete(key: string, options?: CallOptions): Promise<void> {
    checkKey(key);
    await this.#call(`delete ${key}`, options, () => {
      this.#bytes -= this.#objects.get(key)?.bytes.length ?? 0;
      this.#objects.delete(key);
    });
  }

  async *list(prefix: string, options?: CallOptions): AsyncIterable<ObjectInfo> {
    checkPrefix(prefix);
    checkCall(options);
    const keys = await this.#call(`list ${prefix}`, options, () =>
      [...this.#objects.keys()].filter((key) => key.startsWith(prefix)).sort(),
    );
    for (const key of keys) {
      const stored = this.#objects.get(key);
      if (stored !== undefined) yield { key, sizeBytes: stored.bytes.length, modifiedAtMs: stored.modifiedAtMs };
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#objects.clear();
    this.#bytes = 0;
  }

  #call<T>(what: string, options: CallOptions | undefined, run: (signal: AbortSignal) => T | Promise<T>): Promise<T> {
    return withDeadline(this.#clock, `memory: ${what}`, options, undefined, async (signal) => {
      if (this.#closed) throw unavailable(`memory: ${what}: the store is closed`);
      return run(signal);
    });
  }

  #store(key: string, bytes: Uint8Array): void {
    for (const other of this.#objects.keys()) {
      if (other.startsWith(`${key}/`) || key.startsWith(`${other}/`))
        throw invalid(`memory: ${key}: one of it and ${other} is a folder of the other`);
    }
    const total = this.#bytes - (this.#objects.get(key)?.bytes.length ?? 0) + bytes.length;
    if (total > this.#bytesMax) throw this.#full(key);
    this.#bytes = total;
    this.#objects.set(key, { bytes, modifiedAtMs: this.#clock.wallMs() });
  }

  #full(key: string): Error {
    return unavailable(`memory: ${key}: the store would hold more than its limit of ${this.#bytesMax} bytes`);
  }
}

function joined(pieces: readonly Uint8Array[], bytes: number): Uint8Array {
  const out = new Uint8Array(bytes);
  let at = 0;
  for (const piece of pieces) {
    out.set(piece, at);
    at += piece.length;
  }
  return out;
}

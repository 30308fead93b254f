import { constants } from "node:fs";
import { type FileHandle, mkdir, open, unlink } from "node:fs/promises";
import { join, resolve } from "node:path";
import { isSluiceError } from "@sluice/core/model";
import type { Clock, Random } from "@sluice/runtime";
import { watched } from "../body.ts";
import { notFound, throwIfEnded, unavailable, withDeadline } from "../deadline.ts";
import { checkBody, checkCall, checkKey, checkPartBytes, checkPrefix, checkRange, invalid } from "../keys.ts";
import { objectStoreTimers } from "../limits.ts";
import type { CallOptions, ObjectInfo, ObjectStore } from "../port.ts";
import { moveIntoPlace, removeFile, removeStale, syncFolder, systemCode, writePieces } from "./folders.ts";
import { objectInfo, walk } from "./walk.ts";

const { bodyCallTimeoutMs, smallCallTimeoutMs, staleIncomingMs } = objectStoreTimers;

export interface FilesystemStoreOptions {
  readonly clock: Clock;
  readonly random: Random;
}

/**
 * Objects as files of one folder, which several processes of one machine may share:
 *
 *     root/objects/<key>       whole objects
 *     root/incoming/<uuid>     being written; renamed into objects/ after fsync
 *
 * So an object is whole or absent, and stays after a power cut once `put` has resolved.
 */
export async function openFilesystemObjectStore(root: string, options: FilesystemStoreOptions): Promise<ObjectStore> {
  const top = resolve(root);
  const store = new FilesystemObjectStore(top, options);
  try {
    await mkdir(store.objects, { recursive: true });
    await mkdir(store.incoming, { recursive: true });
    await syncFolder(top);
    await removeStale(store.incoming, options.clock.wallMs() - staleIncomingMs);
  } catch (error) {
    throw unavailable(`${top}: cannot be used as an object store: ${text(error)}`, error);
  }
  return store;
}

class FilesystemObjectStore implements ObjectStore {
  readonly objects: string;
  readonly incoming: string;
  readonly #options: FilesystemStoreOptions;
  #closed = false;

  constructor(root: string, options: FilesystemStoreOptions) {
    this.objects = join(root, "objects");
    this.incoming = join(root, "incoming");
    this.#options = options;
  }

  async put(key: string, body: readonly Uint8Array[], options?: CallOptions): Promise<void> {
    checkKey(key);
    checkBody(key, body);
    await this.#call("put", key, options, bodyCallTimeoutMs, (signal) =>
      this.#write(key, signal, (file) => writePieces(file, body, signal)),
    );
  }

  async putMultipart(
    key: string,
    body: AsyncIterable<Uint8Array>,
    options?: CallOptions & { readonly partBytes?: number },
  ): Promise<{ readonly sizeBytes: number }> {
    checkKey(key);
    checkPartBytes(key, options);
    let sizeBytes = 0;
    let bodyError: { readonly error: unknown } | undefined;
    try {
      await this.#call("put", key, options, undefined, (signal) =>
        this.#write(key, signal, async (file) => {
          for await (const piece of watched(body, (error) => (bodyError = { error }))) {
            await writePieces(file, [piece], signal);
            sizeBytes += piece.length;
          }
        }),
      );
    } catch (error) {
      throw bodyError === undefined ? error : bodyError.error;
    }
    return { sizeBytes };
  }

  async getRange(key: string, start: number, length: number, options?: CallOptions): Promise<Uint8Array> {
    checkKey(key);
    checkRange(key, start, length);
    return this.#call("get", key, options, bodyCallTimeoutMs, async (signal) => {
      await using file = await open(join(this.objects, key), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
      const info = await file.stat();
      if (!info.isFile()) throw notFound(this.#name(key));
      if (start + length > info.size) {
        throw unavailable(`${this.#name(key)}: range ${start}+${length} lies outside the object of ${info.size} bytes`);
      }
      const out = new Uint8Array(Buffer.allocUnsafeSlow(length).buffer);
      for (let at = 0; at < length;) {
        throwIfEnded(signal);
        const { bytesRead } = await file.read(out, at, length - at, start + at);
        if (bytesRead === 0) throw unavailable(`${this.#name(key)}: the file ended at ${start + at} of ${info.size} bytes`);
        at += bytesRead;
      }
      return out;
    });
  }

  async head(key: string, options?: CallOptions): Promise<ObjectInfo | undefined> {
    checkKey(key);
    return this.#call("head", key, options, smallCallTimeoutMs, () => objectInfo(join(this.objects, key), key));
  }

  async delete(key: string, options?: CallOptions): Promise<void> {
    checkKey(key);
    await this.#call("delete", key, options, smallCallTimeoutMs, () => removeFile(join(this.objects, key), this.objects));
  }

  async *list(prefix: string, options?: CallOptions): AsyncIterable<ObjectInfo> {
    checkPrefix(prefix);
    checkCall(options);
    const objects = walk(this.objects, prefix);
    try {
      for (;;) {
        const next = await this.#call("list", prefix, options, smallCallTimeoutMs, () => objects.next());
        if (next.done === true) return;
        yield next.value;
      }
    } finally {
      objects.return(undefined).catch(() => undefined);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
  }

  /** Fills a file under incoming/, syncs it and moves it into place; removes it on any failure before that. */
  async #write(key: string, signal: AbortSignal, fill: (file: FileHandle) => Promise<void>): Promise<void> {
    const temporary = join(this.incoming, this.#options.random.uuid());
    try {
      const file = await open(temporary, "wx");
      try {
        await fill(file);
        await file.sync();
      } finally {
        await file.close();
      }
      throwIfEnded(signal);
      await moveIntoPlace(temporary, join(this.objects, key), this.objects);
    } catch (error) {
      await unlink(temporary).catch(() => undefined);
      throw error;
    }
  }

  async #call<T>(
    what: string,
    key: string,
    options: CallOptions | undefined,
    timeoutMs: number | undefined,
    run: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const name = `${what} ${this.#name(key)}`;
    if (this.#closed) throw unavailable(`${name}: the store is closed`);
    try {
      return await withDeadline(this.#options.clock, name, options, timeoutMs, run);
    } catch (error) {
      throw mapped(error, name);
    }
  }

  #name(key: string): string {
    return `file://${this.objects}/${key}`;
  }
}

/** ENOENT and ENOTDIR reach this from reads alone, but for a folder removed under a write: that one is tried again by the caller. */
function mapped(error: unknown, name: string): unknown {
  if (isSluiceError(error)) return error;
  switch (systemCode(error)) {
    case "ENOENT":
      return name.startsWith("get ") ? notFound(name, error) : unavailable(`${name}: ${text(error)}`, error);
    case "ELOOP":
      return name.startsWith("get ") ? notFound(name, error) : invalid(`${name}: a symbolic link is in the way`);
    case "ENOTDIR":
    case "EEXIST":
    case "EISDIR":
    case "ENOTEMPTY":
      return name.startsWith("get ") ? notFound(name, error) : invalid(`${name}: it and another key are folders of one another`);
    default:
      return unavailable(`${name}: ${text(error)}`, error);
  }
}

const text = (error: unknown): string => (error as { message?: string } | null)?.message ?? String(error);

import { close, constants, fdatasync, fsync, ftruncate, open, read, stat, writev } from "node:fs";
import { mkdir, open as openHandle, readdir, readFile, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";

/**
 * The disk as the journal sees it: positioned writes of several pieces, a sync, positioned reads. Tests wrap it (slow, failing, losing what was
 * not synced); nothing else in the service touches the journal's files.
 */
export interface DiskFile {
  readonly path: string;
  /** Size when it was opened or last grown by a write. */
  sizeBytes: number;
  write(parts: readonly Uint8Array[], position: number): Promise<void>;
  /** `write` and `sync` in one: on disk when it resolves. */
  writeDurably(parts: readonly Uint8Array[], position: number): Promise<void>;
  sync(): Promise<void>;
  /** Bytes read: fewer than asked only at the end of the file. */
  read(into: Uint8Array, position: number): Promise<number>;
  truncate(bytes: number): Promise<void>;
  close(): Promise<void>;
}
export interface Disk {
  /** Opens for reading and writing, makes the file when it is not there. */
  open(path: string): Promise<DiskFile>;
  list(directory: string): Promise<string[]>;
  makeDirectory(path: string): Promise<void>;
  /** undefined when it is not there. */
  readWhole(path: string): Promise<Uint8Array | undefined>;
  /** Atomic and durable: afterwards the file holds these bytes, or what it held before. */
  replaceWhole(path: string, parts: readonly Uint8Array[]): Promise<void>;
  remove(path: string): Promise<void>;
}

const done =
  <T>(resolve: (value: T) => void, reject: (error: Error) => void) =>
  (error: Error | null, value?: T): void => {
    if (error === null) resolve(value as T);
    else reject(error);
  };

/** Linux and macOS have it; without it a write would return before anything is on disk. */
const O_DSYNC: number | undefined = constants.O_DSYNC;
const HAS_DSYNC = O_DSYNC !== undefined;

class NodeFile implements DiskFile {
  readonly path: string;
  readonly #fd: number;
  /**
   * The same file opened with O_DSYNC: a write returns when the data and what is needed to find them are on disk, as after fdatasync. One call and one trip
   * through the thread pool instead of two.
   */
  readonly #durableFd: number;
  sizeBytes: number;
  constructor(path: string, fd: number, durableFd: number, sizeBytes: number) {
    this.path = path;
    this.#fd = fd;
    this.#durableFd = durableFd;
    this.sizeBytes = sizeBytes;
  }
  write(parts: readonly Uint8Array[], position: number): Promise<void> {
    return this.#write(this.#fd, parts, position);
  }
  async writeDurably(parts: readonly Uint8Array[], position: number): Promise<void> {
    await this.#write(this.#durableFd, parts, position);
    if (!HAS_DSYNC) await this.sync();
  }
  async #write(fd: number, parts: readonly Uint8Array[], position: number): Promise<void> {
    let rest = parts;
    let at = position;
    while (rest.length > 0) {
      const written = await new Promise<number>((resolve, reject) => writev(fd, rest, at, done(resolve, reject)));
      at += written;
      rest = withoutFirst(rest, written);
    }
    this.sizeBytes = Math.max(this.sizeBytes, at);
  }
  sync(): Promise<void> {
    return new Promise((resolve, reject) => fdatasync(this.#fd, done(resolve, reject)));
  }
  async read(into: Uint8Array, position: number): Promise<number> {
    let total = 0;
    while (total < into.length) {
      const n = await new Promise<number>((resolve, reject) =>
        read(this.#fd, into, total, into.length - total, position + total, done(resolve, reject)),
      );
      if (n === 0) break;
      total += n;
    }
    return total;
  }
  async truncate(bytes: number): Promise<void> {
    await new Promise<void>((resolve, reject) => ftruncate(this.#fd, bytes, done(resolve, reject)));
    this.sizeBytes = bytes;
  }
  async close(): Promise<void> {
    await new Promise<void>((resolve, reject) => close(this.#durableFd, done(resolve, reject)));
    await new Promise<void>((resolve, reject) => close(this.#fd, done(resolve, reject)));
  }
}

/** What is left when the first `bytes` of the parts are gone. */
function withoutFirst(parts: readonly Uint8Array[], bytes: number): readonly Uint8Array[] {
  let left = bytes;
  for (let i = 0; i < parts.length; i++) {
    const part = parts[i] as Uint8Array;
    if (left < part.length) return left === 0 ? parts.slice(i) : [part.subarray(left), ...parts.slice(i + 1)];
    left -= part.length;
  }
  return [];
}

async function syncDirectory(path: string): Promise<void> {
  const fd = await new Promise<number>((resolve, reject) => open(path, "r", done(resolve, reject)));
  try {
    await new Promise<void>((resolve, reject) => fsync(fd, done(resolve, reject)));
  } finally {
    await new Promise<void>((resolve) => close(fd, () => resolve()));
  }
}

export const nodeDisk: Disk = {
  async open(path) {
    const flags = "a+";
    // "r+" fails when there is no file, "w+" empties it: make it first, then open for positioned writes.
    const made = await openHandle(path, flags, 0o640);
    await made.close();
    const fd = await new Promise<number>((resolve, reject) => open(path, "r+", done(resolve, reject)));
    const durably = constants.O_RDWR | (O_DSYNC ?? 0);
    const durableFd = await new Promise<number>((resolve, reject) => open(path, durably, done(resolve, reject)));
    const { size } = await new Promise<{ size: number }>((resolve, reject) => stat(path, done(resolve, reject)));
    await syncDirectory(dirname(path));
    return new NodeFile(path, fd, durableFd, size);
  },
  async list(directory) {
    return (await readdir(directory)).sort();
  },
  async makeDirectory(path) {
    await mkdir(path, { recursive: true, mode: 0o750 });
  },
  async readWhole(path) {
    try {
      return await readFile(path);
    } catch (error) {
      if ((error as { code?: string }).code === "ENOENT") return undefined;
      throw error;
    }
  },
  async replaceWhole(path, parts) {
    const temporary = join(dirname(path), `.${path.slice(path.lastIndexOf("/") + 1)}.new`);
    const handle = await openHandle(temporary, "w", 0o640);
    try {
      for (const part of parts) await handle.writeFile(part);
      await handle.sync();
      await handle.close();
      await rename(temporary, path);
    } catch (error) {
      await handle.close().catch(() => undefined);
      // Half of a file would take the room that a full disk has not got.
      await rm(temporary, { force: true }).catch(() => undefined);
      throw error;
    }
    await syncDirectory(dirname(path));
  },
  async remove(path) {
    await rm(path, { force: true });
    await syncDirectory(dirname(path));
  },
};

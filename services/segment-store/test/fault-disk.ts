import { nodeDisk, type Disk, type DiskFile } from "../src/disk/disk.ts";

/** A disk that fails, stalls or fills up on command. */
export class FaultDisk implements Disk {
  writeError: string | undefined;
  syncError: string | undefined;
  syncDelay: (() => Promise<void>) | undefined;
  syncs = 0;
  writes = 0;
  readonly #inner: Disk;
  constructor(inner: Disk = nodeDisk) {
    this.#inner = inner;
  }
  async open(path: string): Promise<DiskFile> {
    const file = await this.#inner.open(path);
    const write = async (parts: readonly Uint8Array[], position: number): Promise<void> => {
      this.writes++;
      if (this.writeError !== undefined) throw Object.assign(new Error(this.writeError), { code: this.writeError });
      await file.write(parts, position);
    };
    const sync = async (): Promise<void> => {
      this.syncs++;
      await this.syncDelay?.();
      if (this.syncError !== undefined) throw Object.assign(new Error(this.syncError), { code: this.syncError });
      await file.sync();
    };
    return {
      path,
      get sizeBytes() {
        return file.sizeBytes;
      },
      write,
      async writeDurably(parts, position) {
        await write(parts, position);
        await sync();
      },
      sync,
      read: (into, position) => file.read(into, position),
      truncate: (bytes) => file.truncate(bytes),
      close: () => file.close(),
    };
  }
  list = (directory: string) => this.#inner.list(directory);
  makeDirectory = (path: string) => this.#inner.makeDirectory(path);
  readWhole = (path: string) => this.#inner.readWhole(path);
  replaceWhole = (path: string, parts: readonly Uint8Array[]) => this.#inner.replaceWhole(path, parts);
  remove = (path: string) => this.#inner.remove(path);
}

const SECTOR = 512;

/** Decides which sectors of what was not synced survive. */
export type Survives = (sector: number) => boolean;

/**
 * A disk in memory that a power cut can hit: what was synced stays, of the rest any sectors may stay and any may be lost. Whole files
 * (`replaceWhole`) are atomic and durable, as the real one makes them.
 */
export class MemoryDisk implements Disk {
  readonly #files = new Map<string, { durable: Uint8Array; now: Uint8Array }>();
  /** Files opened before the last power cut belong to a process that is gone: its calls never return. */
  #boot = 0;

  #file(path: string): { durable: Uint8Array; now: Uint8Array } {
    let f = this.#files.get(path);
    if (f === undefined) this.#files.set(path, (f = { durable: new Uint8Array(0), now: new Uint8Array(0) }));
    return f;
  }
  powerCut(survives: Survives): void {
    this.#boot++;
    for (const f of this.#files.values()) {
      const kept = new Uint8Array(f.now.length);
      kept.set(f.durable.subarray(0, kept.length));
      for (let s = 0; s * SECTOR < f.now.length; s++) if (survives(s)) kept.set(f.now.subarray(s * SECTOR, (s + 1) * SECTOR), s * SECTOR);
      f.now = kept;
      f.durable = kept.slice();
    }
  }
  open(path: string): Promise<DiskFile> {
    const f = this.#file(path);
    const boot = this.#boot;
    const gone = (): boolean => boot !== this.#boot;
    const never = <T>(): Promise<T> => Promise.withResolvers<T>().promise;
    const file: DiskFile = {
      path,
      sizeBytes: f.now.length,
      write(parts, position) {
        if (gone()) return never();
        const end = position + parts.reduce((n, p) => n + p.length, 0);
        if (end > f.now.length) {
          const grown = new Uint8Array(end);
          grown.set(f.now);
          f.now = grown;
        }
        let at = position;
        for (const p of parts) {
          f.now.set(p, at);
          at += p.length;
        }
        file.sizeBytes = f.now.length;
        return Promise.resolve();
      },
      async writeDurably(parts, position) {
        await file.write(parts, position);
        await file.sync();
      },
      sync() {
        if (gone()) return never();
        f.durable = f.now.slice();
        return Promise.resolve();
      },
      read(into, position) {
        if (gone()) return never();
        const part = f.now.subarray(position, position + into.length);
        into.set(part);
        return Promise.resolve(part.length);
      },
      truncate(bytes) {
        f.now = f.now.slice(0, bytes);
        file.sizeBytes = bytes;
        return Promise.resolve();
      },
      close: () => Promise.resolve(),
    };
    return Promise.resolve(file);
  }
  list(directory: string): Promise<string[]> {
    const names = [...this.#files.keys()].filter((p) => p.startsWith(`${directory}/`)).map((p) => p.slice(directory.length + 1));
    return Promise.resolve(names.filter((n) => !n.includes("/")).sort());
  }
  makeDirectory(): Promise<void> {
    return Promise.resolve();
  }
  readWhole(path: string): Promise<Uint8Array | undefined> {
    return Promise.resolve(this.#files.get(path)?.now.slice());
  }
  replaceWhole(path: string, parts: readonly Uint8Array[]): Promise<void> {
    const whole = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
    let at = 0;
    for (const p of parts) {
      whole.set(p, at);
      at += p.length;
    }
    this.#files.set(path, { durable: whole.slice(), now: whole });
    return Promise.resolve();
  }
  remove(path: string): Promise<void> {
    this.#files.delete(path);
    return Promise.resolve();
  }
}

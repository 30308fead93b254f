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

type Stored = Map<string, { durable: Uint8Array; now: Uint8Array }>;

/**
 * A disk in memory that a power cut can hit: what was synced stays, of the rest any sectors may stay and any may be lost. Whole files
 * (`replaceWhole`) are atomic and durable, as the real one makes them.
 */
export class MemoryDisk {
  readonly #files: Stored = new Map();
  #boot = 0;

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
  /** The disk as a process sees it that starts now. After the next power cut that process is gone: nothing it does reaches the disk, its calls never return. */
  mounted(): Disk {
    const boot = this.#boot;
    return new MountedDisk(this.#files, () => boot !== this.#boot);
  }
}

class MountedDisk implements Disk {
  readonly #files: Stored;
  readonly #gone: () => boolean;
  constructor(files: Stored, gone: () => boolean) {
    this.#files = files;
    this.#gone = gone;
  }
  #do<T>(work: () => T): Promise<T> {
    return this.#gone() ? Promise.withResolvers<T>().promise : Promise.resolve(work());
  }
  open(path: string): Promise<DiskFile> {
    return this.#do(() => {
      const f = this.#files.get(path) ?? { durable: new Uint8Array(0), now: new Uint8Array(0) };
      this.#files.set(path, f);
      const file: DiskFile = {
        path,
        sizeBytes: f.now.length,
        write: (parts, position) =>
          this.#do(() => {
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
          }),
        async writeDurably(parts, position) {
          await file.write(parts, position);
          await file.sync();
        },
        sync: () => this.#do(() => void (f.durable = f.now.slice())),
        read: (into, position) =>
          this.#do(() => {
            const part = f.now.subarray(position, position + into.length);
            into.set(part);
            return part.length;
          }),
        truncate: (bytes) =>
          this.#do(() => {
            f.now = f.now.slice(0, bytes);
            file.sizeBytes = bytes;
          }),
        close: () => this.#do(() => undefined),
      };
      return file;
    });
  }
  list(directory: string): Promise<string[]> {
    return this.#do(() => {
      const names = [...this.#files.keys()].filter((p) => p.startsWith(`${directory}/`)).map((p) => p.slice(directory.length + 1));
      return names.filter((n) => !n.includes("/")).sort();
    });
  }
  makeDirectory(): Promise<void> {
    return this.#do(() => undefined);
  }
  readWhole(path: string): Promise<Uint8Array | undefined> {
    return this.#do(() => this.#files.get(path)?.now.slice());
  }
  replaceWhole(path: string, parts: readonly Uint8Array[]): Promise<void> {
    return this.#do(() => {
      const whole = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
      let at = 0;
      for (const p of parts) {
        whole.set(p, at);
        at += p.length;
      }
      this.#files.set(path, { durable: whole.slice(), now: whole });
    });
  }
  remove(path: string): Promise<void> {
    return this.#do(() => void this.#files.delete(path));
  }
}

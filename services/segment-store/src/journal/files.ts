import { join } from "node:path";
import { decodeFileHeader, decodeGroupHeader, FILE_HEADER_BYTES } from "@sluice/core/journal";
import type { Crc32c } from "@sluice/core/log";
import { SluiceError } from "@sluice/core/model";
import type { Disk, DiskFile } from "../disk/disk.ts";

/** A file on disk. Its number changes each time it is begun; its name does not. */
export interface JournalFile {
  readonly file: DiskFile;
  /** 0 = free. */
  fileNumber: number;
  /** Bytes that may be used. */
  capacity: number;
  /** Bytes written since it was begun, header included. */
  used: number;
}

export interface JournalFilesOptions {
  readonly disk: Disk;
  readonly directory: string;
  readonly fileBytes: number;
  readonly crc32c: Crc32c;
  readonly salt: number;
  readonly clusterId: string;
  readonly incarnation: string;
  /** Free files that are kept for reuse. */
  readonly spareFilesMax: number;
}

const HEAD_BYTES = FILE_HEADER_BYTES + 4096;
const SUFFIX = ".journal";

/** The journal's files: which are in use, which are free to be written again. */
export class JournalFiles {
  readonly #options: JournalFilesOptions;
  readonly #byNumber = new Map<number, JournalFile>();
  #free: JournalFile[] = [];
  #nextName = 1;

  constructor(options: JournalFilesOptions) {
    this.#options = options;
  }

  /** Opens what is there. Throws CLUSTER_MISMATCH for a file of another cluster or incarnation. */
  async open(): Promise<void> {
    const { disk, directory, fileBytes } = this.#options;
    await disk.makeDirectory(directory);
    for (const name of await disk.list(directory)) {
      if (!name.endsWith(SUFFIX)) continue;
      this.#nextName = Math.max(this.#nextName, Number.parseInt(name, 10) + 1);
      const file = await disk.open(join(directory, name));
      const fileNumber = await this.#numberOf(file);
      const opened: JournalFile = { file, fileNumber, capacity: Math.max(fileBytes, file.sizeBytes), used: 0 };
      const other = this.#byNumber.get(fileNumber);
      // Either could be the one that counts.
      if (other !== undefined)
        throw new SluiceError("CORRUPT_SEGMENT", `${other.file.path} and ${file.path} both say that they are journal file ${fileNumber}`);
      if (fileNumber === 0) this.#free.push(opened);
      else this.#byNumber.set(fileNumber, opened);
    }
  }
  /** From the header; from the first group where the header is damaged; 0 when neither says. */
  async #numberOf(file: DiskFile): Promise<number> {
    const { crc32c, salt, clusterId, incarnation } = this.#options;
    const head = new Uint8Array(HEAD_BYTES);
    const n = await file.read(head, 0);
    const header = decodeFileHeader(head.subarray(0, n), crc32c);
    if (header === undefined) return decodeGroupHeader(head.subarray(0, n), FILE_HEADER_BYTES, crc32c, salt)?.fileNumber ?? 0;
    if (header.clusterId !== clusterId || header.incarnation !== incarnation)
      throw new SluiceError(
        "CLUSTER_MISMATCH",
        `${file.path} belongs to cluster ${header.clusterId}, incarnation ${header.incarnation}; this is ${clusterId}, ${incarnation}`,
      );
    return header.fileNumber;
  }

  get(fileNumber: number): JournalFile | undefined {
    return this.#byNumber.get(fileNumber);
  }
  /** In use, by number. */
  inUse(): JournalFile[] {
    return [...this.#byNumber.values()].sort((a, b) => a.fileNumber - b.fileNumber);
  }
  get totalBytes(): number {
    let total = 0;
    for (const f of this.#byNumber.values()) total += f.file.sizeBytes;
    for (const f of this.#free) total += f.file.sizeBytes;
    return total;
  }
  /** Bytes of files that can be written again. */
  get spareBytes(): number {
    return this.#free.reduce((n, f) => n + f.file.sizeBytes, 0);
  }
  get freeFiles(): number {
    return this.#free.length;
  }

  /** A file to write next, with room for a group of `groupBytes`. The caller writes its header together with the first group. */
  async begin(fileNumber: number, groupBytes: number): Promise<JournalFile> {
    const { disk, directory, fileBytes } = this.#options;
    const capacity = Math.max(fileBytes, FILE_HEADER_BYTES + groupBytes);
    // The one that was freed last: its pages are the likeliest to be in memory still.
    const i = this.#free.findLastIndex((f) => f.capacity >= capacity);
    let next = i < 0 ? undefined : this.#free.splice(i, 1)[0];
    if (next === undefined) {
      const file = await disk.open(join(directory, `${String(this.#nextName++).padStart(8, "0")}${SUFFIX}`));
      // It grows as it is written: zeros written first would double the bytes of its first pass, which under load costs more than the syncs of a
      // growing file (measured); where little is written the journal makes blocks ahead of its head. From its second use on it has all its blocks.
      next = { file, fileNumber: 0, capacity, used: 0 };
    }
    next.fileNumber = fileNumber;
    next.used = FILE_HEADER_BYTES;
    this.#byNumber.set(fileNumber, next);
    return next;
  }

  /** Nothing in the file is wanted any more. */
  async release(fileNumber: number): Promise<void> {
    const { disk, fileBytes, spareFilesMax } = this.#options;
    const f = this.#byNumber.get(fileNumber);
    if (f === undefined) return;
    this.#byNumber.delete(fileNumber);
    f.fileNumber = 0;
    if (this.#free.length < spareFilesMax && f.capacity === fileBytes) {
      this.#free.push(f);
      return;
    }
    await f.file.close();
    await disk.remove(f.file.path);
  }
  /** Files begun after the end of a scan hold nothing that counts. Their numbers are given out again, to whatever file is free: so they forget them first, durably. */
  async discardAfter(fileNumber: number): Promise<void> {
    for (const f of this.#byNumber.values()) {
      if (f.fileNumber <= fileNumber) continue;
      await f.file.writeDurably([new Uint8Array(HEAD_BYTES)], 0);
      this.#byNumber.delete(f.fileNumber);
      f.fileNumber = 0;
      this.#free.push(f);
    }
  }
  async close(): Promise<void> {
    for (const f of [...this.#byNumber.values(), ...this.#free]) await f.file.close();
    this.#byNumber.clear();
    this.#free = [];
  }
}

import { encodeEntryHead, encodeFileHeader, encodeGroupHeader, GROUP_HEADER_BYTES, padded } from "@sluice/core/journal";
import type { GroupHeader, JournalEntry } from "@sluice/core/journal";
import type { Crc32c } from "@sluice/core/log";
import { noteBufferAllocated } from "@sluice/runtime/buffer-gc";

/** Payloads up to this size are copied beside their header: a piece of its own in a `writev` costs more. */
const COPY_BYTES_MAX = 16 * 1024;
const ZEROS = new Uint8Array(4096);

export interface PlacedEntry {
  readonly entry: JournalEntry;
  /** Byte of the entry within the group. */
  readonly at: number;
  readonly bytes: number;
}
export interface BuiltGroup {
  readonly parts: Uint8Array[];
  readonly bytes: number;
  readonly entries: readonly PlacedEntry[];
}

/**
 * One flush as the pieces of one `writev`: small things joined in memory, large payloads as they came from the link.
 *
 *   [header | entry head + payload | entry head] [large payload] [entry head + payload | zeros]
 */
export class GroupBuilder {
  readonly #crc32c: Crc32c;
  readonly #salt: number;
  #entries: PlacedEntry[] = [];
  #parts: Uint8Array[] = [];
  #small: Uint8Array[] = [];
  #smallBytes = 0;
  #bytes = 0;

  constructor(crc32c: Crc32c, salt: number) {
    this.#crc32c = crc32c;
    this.#salt = salt;
  }
  /** Bytes of entries so far. */
  get bytes(): number {
    return this.#bytes;
  }
  get count(): number {
    return this.#entries.length;
  }
  add(entry: JournalEntry): void {
    const head = encodeEntryHead(entry, this.#crc32c);
    const at = GROUP_HEADER_BYTES + this.#bytes;
    this.#push(head);
    let bytes = head.length;
    if (entry.kind === "append") {
      bytes += entry.payload.length;
      if (entry.payload.length <= COPY_BYTES_MAX) this.#push(entry.payload);
      else {
        this.#join();
        this.#parts.push(entry.payload);
      }
    }
    this.#bytes += bytes;
    this.#entries.push({ entry, at, bytes });
  }
  #push(bytes: Uint8Array): void {
    this.#small.push(bytes);
    this.#smallBytes += bytes.length;
  }
  #join(): void {
    if (this.#small.length === 0) return;
    const joined = new Uint8Array(this.#smallBytes);
    noteBufferAllocated(joined.length);
    let at = 0;
    for (const s of this.#small) {
      joined.set(s, at);
      at += s.length;
    }
    this.#parts.push(joined);
    this.#small = [];
    this.#smallBytes = 0;
  }

  /** The group, and a fresh start. `fileHeader` given = the first group of a file, written behind its header. */
  finish(
    header: Omit<GroupHeader, "entryBytes" | "entryCount">,
    fileHeader: Parameters<typeof encodeFileHeader>[0] | undefined,
  ): BuiltGroup {
    const total = padded(GROUP_HEADER_BYTES + this.#bytes);
    const padding = total - GROUP_HEADER_BYTES - this.#bytes;
    if (padding > 0) this.#push(ZEROS.subarray(0, padding));
    this.#join();
    const head = new Uint8Array(GROUP_HEADER_BYTES);
    encodeGroupHeader({ ...header, entryBytes: this.#bytes, entryCount: this.#entries.length }, head, 0, this.#crc32c, this.#salt);
    const parts = fileHeader === undefined ? [head, ...this.#parts] : [encodeFileHeader(fileHeader, this.#crc32c), head, ...this.#parts];
    const built = { parts, bytes: total, entries: this.#entries };
    this.#entries = [];
    this.#parts = [];
    this.#bytes = 0;
    return built;
  }
}

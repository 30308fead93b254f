import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { incarnation as asIncarnation, SluiceError } from "@sluice/core/model";
import type { Incarnation } from "@sluice/core/model";
import type { Random } from "@sluice/runtime";
import type { Disk } from "./disk.ts";

/**
 * The folder of a storage node:
 *
 *   format          who it is: cluster, node, incarnation
 *   FAILED          the journal failed: nothing here is trusted again
 *   lock            held while a process uses the folder
 *   journal/        files of equal size
 *   checkpoints/    the newest two
 */
export interface Format {
  readonly version: 1;
  readonly clusterId: string;
  readonly node: string;
  readonly incarnation: Incarnation;
  readonly firstSegmentNumber: number;
}
const text = new TextEncoder();
const SEGMENT_NUMBER_START_MAX = 2 ** 31;

/**
 * Reads the format file, or formats an empty folder as a new incarnation. Throws CLUSTER_MISMATCH when the folder belongs to another cluster or node,
 * and INVALID_CONFIG when there is a journal without a format: whoever lost the format file has lost the right to be that node.
 */
export async function openFormat(
  disk: Disk,
  folder: string,
  who: { readonly clusterId: string; readonly node: string },
  random: Random,
): Promise<Format> {
  await disk.makeDirectory(join(folder, "journal"));
  await disk.makeDirectory(join(folder, "checkpoints"));
  const path = join(folder, "format");
  const bytes = await disk.readWhole(path);
  if (bytes === undefined) {
    if ((await disk.list(join(folder, "journal"))).length > 0)
      throw new SluiceError("INVALID_CONFIG", `${folder} holds a journal but no format file: move it away to start as a new node`);
    const made: Format = {
      version: 1,
      clusterId: who.clusterId,
      node: who.node,
      incarnation: asIncarnation(random.uuid()),
      firstSegmentNumber: random.int(SEGMENT_NUMBER_START_MAX),
    };
    await disk.replaceWhole(path, [text.encode(`${JSON.stringify(made, undefined, 2)}\n`)]);
    return made;
  }
  const format = parseFormat(bytes, path);
  if (format.clusterId !== who.clusterId)
    throw new SluiceError("CLUSTER_MISMATCH", `${folder} belongs to cluster ${format.clusterId}, this is cluster ${who.clusterId}`);
  if (format.node !== who.node)
    throw new SluiceError("CLUSTER_MISMATCH", `${folder} belongs to node ${format.node}, this is node ${who.node}`);
  return format;
}

/** The node that a folder was formatted as; undefined when it was not. */
export async function formattedNode(disk: Disk, path: string): Promise<string | undefined> {
  const bytes = await disk.readWhole(path);
  return bytes === undefined ? undefined : parseFormat(bytes, path).node;
}

function parseFormat(bytes: Uint8Array, path: string): Format {
  try {
    const f = JSON.parse(new TextDecoder().decode(bytes)) as Format;
    if (f.version === 1 && typeof f.clusterId === "string" && typeof f.incarnation === "string" && Number.isInteger(f.firstSegmentNumber))
      return f;
  } catch (cause) {
    throw new SluiceError("INVALID_CONFIG", `${path} is no format file`, { cause });
  }
  throw new SluiceError("INVALID_CONFIG", `${path} is no format file of version 1`);
}

/** Kept outside the journal, because the journal is what failed. */
export const failedMarkerPath = (folder: string): string => join(folder, "FAILED");
export async function hasFailedMarker(disk: Disk, folder: string): Promise<boolean> {
  return (await disk.readWhole(failedMarkerPath(folder))) !== undefined;
}
export async function writeFailedMarker(disk: Disk, folder: string, reason: string): Promise<void> {
  await disk.replaceWhole(failedMarkerPath(folder), [text.encode(`${reason}\n`)]);
}

/**
 * One process per folder. SQLite takes the operating system's lock on the file, which goes with the process however it ends;
 * Node.js itself has no file locks.
 */
export class FolderLock {
  readonly #database: DatabaseSync;
  constructor(folder: string) {
    this.#database = new DatabaseSync(join(folder, "lock"));
    try {
      this.#database.exec("PRAGMA busy_timeout = 0; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
    } catch (cause) {
      this.#database.close();
      throw new SluiceError("INVALID_CONFIG", `${folder} is in use by another process`, { cause });
    }
  }
  release(): void {
    this.#database.close();
  }
}

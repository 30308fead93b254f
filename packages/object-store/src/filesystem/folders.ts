import { constants } from "node:fs";
import { type FileHandle, mkdir, open, readdir, rename, rmdir, stat, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { grouped, totalBytes } from "../body.ts";
import { throwIfEnded } from "../deadline.ts";
import { objectStoreLimits } from "../limits.ts";

/** The code of an error of the operating system, or "" for others. Not by class: realms differ. */
export function systemCode(error: unknown): string {
  const code = (error as { code?: unknown } | null | undefined)?.code;
  return typeof code === "string" ? code : "";
}

/** Makes the entries of a folder survive a power cut. */
export async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  await folder.sync();
}

/** Folders removed by a concurrent delete between `mkdir` and `rename` are made again this often. */
const MOVE_ATTEMPTS_MAX = 16;

/**
 * Moves a synced file to its place below `root` and returns when a power cut cannot take it back.
 *
 *     root/objects / 0f3a / 7-1 / segment      rename, then fsync of 7-1, 0f3a, objects
 *
 * Every folder up to the root is synced, not only new ones: another process may have made one a moment ago and not synced it yet.
 */
export async function moveIntoPlace(from: string, to: string, root: string): Promise<void> {
  const folder = dirname(to);
  for (let attempt = 1; ; attempt++) {
    try {
      await mkdir(folder, { recursive: true });
      await rename(from, to);
      break;
    } catch (error) {
      if (systemCode(error) !== "ENOENT" || attempt === MOVE_ATTEMPTS_MAX) throw error;
    }
  }
  await syncUpTo(folder, root);
}

async function syncUpTo(folder: string, root: string): Promise<void> {
  for (let path = folder; path.length >= root.length; path = dirname(path)) {
    try {
      await syncFolder(path);
    } catch (error) {
      // Emptied and removed by a concurrent delete of the very object: its folders need no sync.
      if (systemCode(error) !== "ENOENT") throw error;
    }
  }
}

/** Removes a file, then the folders that became empty, up to and without `root`. Absent is success. */
export async function removeFile(path: string, root: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    // EISDIR (Linux), EPERM (others): the key is a folder, so no object.
    if (["ENOENT", "ENOTDIR", "EISDIR"].includes(systemCode(error)) || (systemCode(error) === "EPERM" && (await isFolder(path)))) return;
    throw error;
  }
  await syncFolder(dirname(path)).catch((error: unknown) => {
    if (systemCode(error) !== "ENOENT") throw error;
  });
  for (let folder = dirname(path); folder.length > root.length; folder = dirname(folder)) {
    try {
      await rmdir(folder);
    } catch {
      return;
    }
  }
}

const isFolder = async (path: string): Promise<boolean> => (await stat(path)).isDirectory();

/** Writes all pieces at the end of the file, many in one call, and stops between calls when the signal has aborted. */
export async function writePieces(file: FileHandle, pieces: readonly Uint8Array[], signal: AbortSignal): Promise<void> {
  for (const group of grouped(pieces, objectStoreLimits.writeBytesMax, objectStoreLimits.writePiecesMax)) {
    throwIfEnded(signal);
    await writeGroup(file, group);
  }
}

/** A write may be short (a signal, a nearly full disk): the rest follows. */
async function writeGroup(file: FileHandle, group: readonly Uint8Array[]): Promise<void> {
  let rest = group;
  for (let left = totalBytes(group); left > 0;) {
    const { bytesWritten } = await file.writev(rest);
    left -= bytesWritten;
    if (left > 0) rest = without(rest, bytesWritten);
  }
}

function without(pieces: readonly Uint8Array[], bytes: number): Uint8Array[] {
  const rest: Uint8Array[] = [];
  let skip = bytes;
  for (const piece of pieces) {
    if (skip < piece.length) rest.push(piece.subarray(skip));
    skip = Math.max(0, skip - piece.length);
  }
  return rest;
}

/** Removes files of `folder` that were last written before `beforeMs`. */
export async function removeStale(folder: string, beforeMs: number): Promise<void> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    const info = await stat(path).catch(() => undefined);
    if (info !== undefined && info.isFile() && info.mtimeMs < beforeMs) await unlink(path).catch(() => undefined);
  }
}

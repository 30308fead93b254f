import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { isKeyPart } from "../keys.ts";
import type { ObjectInfo } from "../port.ts";
import { systemCode } from "./folders.ts";

/**
 * Objects below `root` whose key starts with `prefix`, in the order of their keys, one folder in memory at a time.
 * A folder sorts with its slash, because `a-b` and `a.b` come before `a/b` although `a` comes before both.
 */
export async function* walk(root: string, prefix: string): AsyncGenerator<ObjectInfo> {
  yield* walkFolder(root, "", prefix);
}

async function* walkFolder(path: string, key: string, prefix: string): AsyncGenerator<ObjectInfo> {
  for (const name of await sortedNames(path)) {
    const full = key + name;
    if (name.endsWith("/")) {
      if (full.startsWith(prefix) || prefix.startsWith(full)) yield* walkFolder(join(path, name), full, prefix);
    } else if (full.startsWith(prefix)) {
      const info = await objectInfo(join(path, name), full);
      if (info !== undefined) yield info;
    }
  }
}

async function sortedNames(path: string): Promise<string[]> {
  let entries;
  try {
    entries = await readdir(path, { withFileTypes: true });
  } catch (error) {
    // Removed since its parent was read.
    if (systemCode(error) === "ENOENT" || systemCode(error) === "ENOTDIR") return [];
    throw error;
  }
  const names: string[] = [];
  for (const entry of entries) {
    if (!isKeyPart(entry.name)) continue;
    if (entry.isDirectory()) names.push(`${entry.name}/`);
    else if (entry.isFile()) names.push(entry.name);
  }
  return names.sort();
}

/** Undefined when there is no regular file: absent, a folder, or a link that points somewhere else. */
export async function objectInfo(path: string, key: string): Promise<ObjectInfo | undefined> {
  try {
    const info = await lstat(path);
    return info.isFile() ? { key, sizeBytes: info.size, modifiedAtMs: Math.trunc(info.mtimeMs) } : undefined;
  } catch (error) {
    if (systemCode(error) === "ENOENT" || systemCode(error) === "ENOTDIR") return undefined;
    throw error;
  }
}

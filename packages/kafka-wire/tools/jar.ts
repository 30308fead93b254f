import { readFileSync } from "node:fs";
import { inflateRawSync } from "node:zlib";

/*
 * Just enough of the zip format for a jar: the central directory at the end names each file, its sizes, and where its local header is.
 */
const END_SIGNATURE = 0x0605_4b50;
const ENTRY_SIGNATURE = 0x0201_4b50;
const END_BYTES = 22;
const COMMENT_BYTES_MAX = 0xffff;

/** Text of the files below `folder`, by name within it. */
export function readJar(path: string, folder: string): Map<string, string> {
  const jar = readFileSync(path);
  let at = jar.length - END_BYTES;
  while (at > jar.length - END_BYTES - COMMENT_BYTES_MAX && jar.readUInt32LE(at) !== END_SIGNATURE) at -= 1;
  if (jar.readUInt32LE(at) !== END_SIGNATURE) throw new Error(`${path} is no jar`);
  const count = jar.readUInt16LE(at + 10);
  const files = new Map<string, string>();
  let entry = jar.readUInt32LE(at + 16);
  for (let i = 0; i < count; i += 1) {
    if (jar.readUInt32LE(entry) !== ENTRY_SIGNATURE) throw new Error(`${path}: entry ${i} is broken`);
    const nameLength = jar.readUInt16LE(entry + 28);
    const name = jar.toString("utf8", entry + 46, entry + 46 + nameLength);
    if (name.startsWith(folder) && !name.endsWith("/")) files.set(name.slice(folder.length), readEntry(jar, entry));
    entry += 46 + nameLength + jar.readUInt16LE(entry + 30) + jar.readUInt16LE(entry + 32);
  }
  return files;
}
function readEntry(jar: Buffer, entry: number): string {
  const method = jar.readUInt16LE(entry + 10);
  const packed = jar.readUInt32LE(entry + 20);
  const local = jar.readUInt32LE(entry + 42);
  const from = local + 30 + jar.readUInt16LE(local + 26) + jar.readUInt16LE(local + 28);
  const bytes = jar.subarray(from, from + packed);
  return (method === 0 ? bytes : inflateRawSync(bytes)).toString("utf8");
}

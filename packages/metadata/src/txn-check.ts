import { limits, SluiceError } from "@sluice/core/model";
import { encodeKey } from "./key-range.ts";
import type { Op, Txn } from "./port.ts";

const invalid = (message: string): SluiceError => new SluiceError("INVALID_ARGUMENT", message);

/**
 * What every adapter refuses before anything is sent or written, so that the caller knows that nothing was applied:
 * too many compares or operations, too many bytes, unusable keys, and two writes that meet in one key.
 */
export function checkTxn(txn: Txn): void {
  if (txn.compare.length > limits.metadataTxnOpsMax) throw invalid(tooMany("compares", txn.compare.length));
  for (const compare of txn.compare) {
    checkKey(compare.key);
    if (!Number.isSafeInteger(compare.equals) || compare.equals < 0) throw invalid(`compare of ${compare.key} with ${compare.equals}`);
  }
  const bytes = checkBranch(txn.then) + checkBranch(txn.else ?? []);
  if (bytes > limits.metadataTxnBytesMax) {
    throw invalid(`transaction of ${bytes} bytes, at most ${limits.metadataTxnBytesMax} (metadataTxnBytesMax)`);
  }
}

const tooMany = (what: string, count: number): string => `${count} ${what}, at most ${limits.metadataTxnOpsMax} (metadataTxnOpsMax)`;

/** Keys are not empty and are well-formed Unicode (a lone surrogate would be stored as another key). */
export function checkKey(key: string): void {
  if (key === "" || !key.isWellFormed()) throw invalid("a key must be a non-empty, well-formed string");
}

/** A prefix that is written to must not be empty: it would delete everything. A prefix that is read may be. */
export function checkPrefix(prefix: string, use: "read" | "write"): void {
  if (!prefix.isWellFormed()) throw invalid("a prefix must be a well-formed string");
  if (use === "write" && prefix === "") throw invalid("deletePrefix needs a prefix");
}

/** Returns the bytes of keys and values. */
function checkBranch(ops: readonly Op[]): number {
  if (ops.length > limits.metadataTxnOpsMax) throw invalid(tooMany("operations", ops.length));
  let bytes = 0;
  const written = new Set<string>();
  const prefixes: string[] = [];
  for (const op of ops) {
    if (op.kind === "list" || op.kind === "deletePrefix") {
      checkPrefix(op.prefix, op.kind === "list" ? "read" : "write");
      bytes += encodeKey(op.prefix).length;
      if (op.kind === "deletePrefix") prefixes.push(op.prefix);
      continue;
    }
    checkKey(op.key);
    bytes += encodeKey(op.key).length;
    if (op.kind === "get") continue;
    if (op.kind === "put") bytes += op.value.length;
    if (written.has(op.key)) throw invalid(`two writes to ${op.key} in one branch`);
    written.add(op.key);
  }
  checkPrefixes(written, prefixes);
  return bytes;
}

function checkPrefixes(written: ReadonlySet<string>, prefixes: readonly string[]): void {
  prefixes.forEach((prefix, i) => {
    for (const key of written) if (key.startsWith(prefix)) throw invalid(`${key} is written and deleted by prefix ${prefix} in one branch`);
    const other = prefixes.find((p, j) => j !== i && p.startsWith(prefix));
    if (other !== undefined) throw invalid(`prefixes ${prefix} and ${other} overlap in one branch`);
  });
}

/** Watch start: 0 is taken as 1, the beginning of history. */
export function checkFromRevision(revision: number): number {
  if (!Number.isSafeInteger(revision) || revision < 0) throw invalid(`watch from revision ${revision}`);
  return Math.max(1, revision);
}

export function checkTtl(ttlMs: number): void {
  if (!Number.isFinite(ttlMs) || ttlMs <= 0) throw invalid(`lease of ${ttlMs} ms`);
}

const reads = (ops: readonly Op[]): boolean => ops.every((op) => op.kind === "get" || op.kind === "list");
/** Whether no branch can change anything: then asking twice is harmless and the outcome is never unknown. */
export const isReadOnly = (txn: Txn): boolean => reads(txn.then) && reads(txn.else ?? []);

import { SluiceError } from "@sluice/core/model";
import { decodeKey, encodeKey, prefixEnd } from "../key-range.ts";
import type { Compare, KeyValue, Op, OpResult, Txn, WatchEvent } from "../port.ts";
import type { CompareMessage, KeyValueMessage, RequestOp, ResponseOp, TxnRequest, WatchResponse } from "./protocol.ts";

const ZERO = new Uint8Array([0]);

/** Keys of the port <-> keys in etcd, which all begin with `prefix`. */
export class KeySpace {
  readonly #prefix: string;
  readonly #prefixBytes: number;
  constructor(prefix: string) {
    this.#prefix = prefix;
    this.#prefixBytes = encodeKey(prefix).length;
  }
  key(key: string): Uint8Array {
    return encodeKey(this.#prefix + key);
  }
  /** All keys below a prefix; etcd writes "every key" as zero to zero. */
  range(prefix: string): { key: Uint8Array; range_end: Uint8Array } {
    const key = this.key(prefix);
    const end = prefixEnd(key);
    return end === undefined ? { key: ZERO, range_end: ZERO } : { key, range_end: end };
  }
  text(key: Uint8Array): string {
    return decodeKey(key.subarray(this.#prefixBytes));
  }
}

/** etcd counts revisions in int64; from 2^53 on a double cannot tell them apart. */
export function revisionOf(text: string): number {
  const revision = Number(text);
  if (!Number.isSafeInteger(revision)) throw new SluiceError("INTERNAL", `etcd revision ${text} is over 2^53`);
  return revision;
}

export function entryOf(keys: KeySpace, kv: KeyValueMessage): KeyValue {
  return {
    key: keys.text(kv.key),
    // A plain view: a Buffer would behave differently from what the other adapter returns (slice, toJSON).
    value: new Uint8Array(kv.value.buffer, kv.value.byteOffset, kv.value.byteLength),
    createRevision: revisionOf(kv.create_revision),
    modRevision: revisionOf(kv.mod_revision),
    version: revisionOf(kv.version),
    lease: kv.lease,
  };
}

export function eventOf(keys: KeySpace, event: WatchResponse["events"][number]): WatchEvent {
  if (event.type === "Put") return { type: "put", entry: entryOf(keys, event.kv) };
  return { type: "delete", key: keys.text(event.kv.key), modRevision: revisionOf(event.kv.mod_revision) };
}

export function txnRequest(keys: KeySpace, txn: Txn): TxnRequest {
  return {
    compare: txn.compare.map((compare) => compareMessage(keys, compare)),
    success: txn.then.map((op) => requestOp(keys, op)),
    failure: (txn.else ?? []).map((op) => requestOp(keys, op)),
  };
}

function compareMessage(keys: KeySpace, compare: Compare): CompareMessage {
  const key = keys.key(compare.key);
  return compare.target === "mod"
    ? { result: "Equal", target: "Mod", key, mod_revision: compare.equals }
    : { result: "Equal", target: "Create", key, create_revision: compare.equals };
}

function requestOp(keys: KeySpace, op: Op): RequestOp {
  if (op.kind === "put") return { request_put: { key: keys.key(op.key), value: op.value, lease: op.lease ?? "0" } };
  if (op.kind === "delete") return { request_delete_range: { key: keys.key(op.key) } };
  if (op.kind === "deletePrefix") return { request_delete_range: keys.range(op.prefix) };
  if (op.kind === "get") return { request_range: { key: keys.key(op.key) } };
  return { request_range: keys.range(op.prefix) };
}

export function opResult(keys: KeySpace, op: ResponseOp): OpResult {
  if (op.response_range) return { kind: "range", entries: op.response_range.kvs.map((kv) => entryOf(keys, kv)) };
  if (op.response_delete_range) return { kind: "delete", deleted: Number(op.response_delete_range.deleted) };
  return { kind: "put" };
}

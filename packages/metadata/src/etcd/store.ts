import { status } from "@grpc/grpc-js";
import { isSluiceError, SluiceError } from "@sluice/core/model";
import type { Clock, Logger, Random } from "@sluice/runtime";
import type { CallOptions, KeyValue, Lease, MetadataStore, Txn, TxnResult, WatchBatch } from "../port.ts";
import { checkFromRevision, checkKey, checkPrefix, checkTtl, checkTxn, isReadOnly } from "../txn-check.ts";
import { Calls, type CallFailure } from "./calls.ts";
import { entryOf, KeySpace, opResult, revisionOf, txnRequest } from "./convert.ts";
import { Endpoints, type EtcdTls } from "./endpoints.ts";
import { grantLease } from "./lease.ts";
import type { RangeRequest, RangeResponse, TxnResponse } from "./protocol.ts";
import { watchEtcd } from "./watcher.ts";

export interface EtcdMetadataOptions {
  /** Members of one cluster: "http://host:port", "https://host:port" or "host:port". */
  readonly endpoints: readonly string[];
  /** Put before every key and taken off again; default none. */
  readonly prefix?: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly tls?: EtcdTls;
}

/** Entries of one page of a listing; a page that is too large to receive is asked for again with a tenth of them. */
const LIST_PAGE_ENTRIES = 1_000;
/** A listing begins anew when its revision is compacted between two pages, at most this often. */
const LIST_RESTARTS_MAX = 3;

/**
 * The store on etcd 3.4 or newer. Returns at once; connections are made with the first call and made again whenever they break.
 * Needs the real clock: gRPC's own timers run on it.
 */
export function openEtcdMetadata(options: EtcdMetadataOptions): MetadataStore {
  return new EtcdStore(options);
}

class EtcdStore implements MetadataStore {
  readonly #options: EtcdMetadataOptions;
  readonly #keys: KeySpace;
  readonly #endpoints: Endpoints;
  readonly #calls: Calls;
  readonly #closing = new AbortController();

  constructor(options: EtcdMetadataOptions) {
    const { clock, random, logger } = options;
    this.#options = options;
    this.#keys = new KeySpace(options.prefix ?? "");
    this.#endpoints = new Endpoints(options.endpoints, options.tls, clock, random, logger);
    this.#calls = new Calls(this.#endpoints, clock, random, this.#closing.signal);
  }

  async get(key: string, options?: CallOptions): Promise<{ entry: KeyValue | undefined; revision: number }> {
    checkKey(key);
    const answer = await this.#calls.repeat<RangeResponse>("KV", "range", { key: this.#keys.key(key) } satisfies RangeRequest, options);
    const kv = answer.kvs[0];
    return { entry: kv === undefined ? undefined : entryOf(this.#keys, kv), revision: revisionOf(answer.header.revision) };
  }

  async list(prefix: string, options?: CallOptions): Promise<{ entries: KeyValue[]; revision: number }> {
    checkPrefix(prefix, "read");
    for (let restarts = 0; ; restarts++) {
      try {
        return await this.#listPages(prefix, options);
      } catch (error) {
        if (!isSluiceError(error) || error.code !== "COMPACTED") throw error;
        if (restarts === LIST_RESTARTS_MAX) {
          throw new SluiceError("METADATA_UNAVAILABLE", `history is compacted faster than ${prefix} is listed`, { cause: error });
        }
      }
    }
  }

  async #listPages(prefix: string, options: CallOptions | undefined): Promise<{ entries: KeyValue[]; revision: number }> {
    const range = this.#keys.range(prefix);
    const entries: KeyValue[] = [];
    let key = range.key;
    let revision = 0;
    for (let limit = LIST_PAGE_ENTRIES; ;) {
      const request: RangeRequest = { key, range_end: range.range_end, limit, revision };
      const page = await this.#calls.repeat<RangeResponse | "too large">("KV", "range", request, options, tooLarge);
      if (page === "too large") {
        if (limit === 1) throw new SluiceError("METADATA_UNAVAILABLE", `an entry under ${prefix} is too large to receive`);
        limit = Math.max(1, Math.floor(limit / 10));
        continue;
      }
      // The first page fixes the revision of all.
      if (revision === 0) revision = revisionOf(page.header.revision);
      for (const kv of page.kvs) entries.push(entryOf(this.#keys, kv));
      const last = page.kvs.at(-1);
      if (!page.more || last === undefined) return { entries, revision };
      key = Buffer.concat([last.key, new Uint8Array(1)]);
    }
  }

  async txn(txn: Txn, options?: CallOptions): Promise<TxnResult> {
    checkTxn(txn);
    const request = txnRequest(this.#keys, txn);
    const answer = await (isReadOnly(txn)
      ? this.#calls.repeat<TxnResponse>("KV", "txn", request, options)
      : this.#calls.once<TxnResponse>("KV", "txn", request, options));
    return {
      succeeded: answer.succeeded,
      revision: revisionOf(answer.header.revision),
      results: answer.responses.map((op) => opResult(this.#keys, op)),
    };
  }

  watch(prefix: string, fromRevision: number, signal: AbortSignal): AsyncIterable<WatchBatch> {
    checkPrefix(prefix, "read");
    const parts = { ...this.#options, endpoints: this.#endpoints, keys: this.#keys, closing: this.#closing.signal };
    return watchEtcd(parts, prefix, checkFromRevision(fromRevision), signal);
  }

  async lease(ttlMs: number, options?: CallOptions): Promise<Lease> {
    checkTtl(ttlMs);
    const parts = { ...this.#options, endpoints: this.#endpoints, calls: this.#calls, closing: this.#closing.signal };
    return grantLease(parts, ttlMs, options);
  }

  /** Compacts one revision below: that one may lose its deletions (see the watcher), and "below" keeps `revision` itself whole. */
  async compact(revision: number, options?: CallOptions): Promise<void> {
    if (!Number.isSafeInteger(revision)) throw new SluiceError("INVALID_ARGUMENT", `compact at ${revision}`);
    const at = revision - 1;
    if (at < 1) return;
    try {
      await this.#calls.repeat<object>("KV", "compact", { revision: at, physical: false }, options);
    } catch (error) {
      if (!isSluiceError(error) || error.code !== "COMPACTED") throw error;
    }
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#endpoints.close();
  }
}

/** grpc-js refuses an answer over the limit by itself; the call is as good as not made. */
const tooLarge = (failure: CallFailure): "too large" | undefined =>
  failure.status === status.RESOURCE_EXHAUSTED && failure.details.includes("larger than max") ? "too large" : undefined;

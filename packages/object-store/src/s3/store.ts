import type { Clock, Logger } from "@sluice/runtime";
import { watched } from "../body.ts";
import { notFound, unavailable, withDeadline } from "../deadline.ts";
import { checkBody, checkCall, checkKey, checkPartBytes, checkPrefix, checkRange, invalid } from "../keys.ts";
import { objectStoreLimits, objectStoreTimers, type ObjectStoreTimers } from "../limits.ts";
import type { CallOptions, ObjectInfo, ObjectStore } from "../port.ts";
import { S3Calls } from "./calls.ts";
import { MultipartUpload } from "./multipart.ts";
import { createSigner, type S3Credentials, type S3Location } from "./signer.ts";
import { createBucketBody, type ListPage, parseListPage } from "./xml.ts";

export interface S3StoreOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly endpoint: string;
  /** 3 to 63 characters of `[a-z0-9.-]`. */
  readonly bucket: string;
  readonly region?: string;
  /** Default true: works with every server, AWS included. */
  readonly pathStyle?: boolean;
  readonly credentials: S3Credentials;
  readonly timers?: Partial<ObjectStoreTimers>;
}
export interface S3ObjectStore extends ObjectStore {
  /** Makes the bucket when it is not there. */
  ensureBucket(options?: CallOptions): Promise<void>;
}

const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;

/** An S3-compatible server. Opens no connection by itself; throws INVALID_ARGUMENT for options that cannot work. */
export function s3ObjectStore(options: S3StoreOptions): S3ObjectStore {
  const { bucket, endpoint, region = "us-east-1", pathStyle = true } = options;
  if (!BUCKET.test(bucket)) throw invalid(`bucket ${JSON.stringify(bucket.slice(0, 80))} must be 3 to 63 characters of [a-z0-9.-]`);
  const location: S3Location = { bucket, endpoint, region, pathStyle };
  const timers = { ...objectStoreTimers, ...options.timers };
  const calls = new S3Calls(options.clock, location, createSigner(location, options.credentials), timers);
  return new S3Store(options, region, calls, timers);
}

class S3Store implements S3ObjectStore {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #region: string;
  readonly #calls: S3Calls;
  readonly #timers: ObjectStoreTimers;

  constructor(options: S3StoreOptions, region: string, calls: S3Calls, timers: ObjectStoreTimers) {
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#region = region;
    this.#calls = calls;
    this.#timers = timers;
  }

  async put(key: string, body: readonly Uint8Array[], options?: CallOptions): Promise<void> {
    checkKey(key);
    checkBody(key, body);
    await this.#calls.call({ what: "put", method: "PUT", key, body, expect: [200] }, options, this.#timers.bodyCallTimeoutMs);
  }

  async putMultipart(
    key: string,
    body: AsyncIterable<Uint8Array>,
    options?: CallOptions & { readonly partBytes?: number },
  ): Promise<{ readonly sizeBytes: number }> {
    checkKey(key);
    const partBytes = checkPartBytes(key, options);
    const upload = new MultipartUpload(this.#calls, key, this.#timers);
    let bodyError: { readonly error: unknown } | undefined;
    const source = watched(body, (error) => (bodyError = { error }));
    try {
      const name = this.#calls.name("put", key);
      const sizeBytes = await withDeadline(this.#clock, name, options, undefined, (signal) => upload.run(source, partBytes, signal));
      return { sizeBytes };
    } catch (error) {
      await upload.abort().catch((err: unknown) => this.#logger.warn("multipart upload left behind", { key, err }));
      throw bodyError === undefined ? error : bodyError.error;
    }
  }

  async getRange(key: string, start: number, length: number, options?: CallOptions): Promise<Uint8Array> {
    checkKey(key);
    checkRange(key, start, length);
    if (length === 0) return this.#emptyRange(key, start, options);
    const end = start + length - 1;
    const headers = { range: `bytes=${start}-${end}` };
    const call = {
      what: "get",
      method: "GET",
      key,
      headers,
      expect: [206],
      answerBytesMax: Math.max(length, objectStoreLimits.answerBytesMax),
    };
    const answer = await this.#calls.call({ ...call, method: "GET" }, options, this.#timers.bodyCallTimeoutMs);
    const range = answer.headers["content-range"] ?? "";
    if (!range.startsWith(`bytes ${start}-${end}/`) || answer.body.length !== length) {
      const got = `${answer.body.length} bytes, content-range ${JSON.stringify(range.slice(0, 80))}`;
      throw unavailable(`${this.#calls.name("get", key)}: asked for bytes ${start}-${end}, got ${got}`);
    }
    return answer.body;
  }

  async head(key: string, options?: CallOptions): Promise<ObjectInfo | undefined> {
    checkKey(key);
    const timeoutMs = this.#timers.smallCallTimeoutMs;
    const answer = await this.#calls.call({ what: "head", method: "HEAD", key, expect: [200, 404] }, options, timeoutMs);
    if (answer.status === 404) {
      await this.#calls.checkBucket(options, timeoutMs);
      return undefined;
    }
    const sizeBytes = Number(answer.headers["content-length"] ?? NaN);
    const modifiedAtMs = Date.parse(answer.headers["last-modified"] ?? "");
    if (!Number.isSafeInteger(sizeBytes) || Number.isNaN(modifiedAtMs)) {
      throw unavailable(`${this.#calls.name("head", key)}: the answer lacks content-length or last-modified`);
    }
    return { key, sizeBytes, modifiedAtMs };
  }

  async delete(key: string, options?: CallOptions): Promise<void> {
    checkKey(key);
    const timeoutMs = this.#timers.smallCallTimeoutMs;
    const answer = await this.#calls.call({ what: "delete", method: "DELETE", key, expect: [200, 204, 404] }, options, timeoutMs);
    if (answer.status === 404) await this.#calls.checkBucket(options, timeoutMs);
  }

  async *list(prefix: string, options?: CallOptions): AsyncIterable<ObjectInfo> {
    checkPrefix(prefix);
    checkCall(options);
    let token: string | undefined;
    let last = "";
    do {
      const page = await this.#listPage(prefix, token, options);
      for (const object of page.objects) {
        // The order is promised by S3 and needed by those who compare two lists; a repeated page would never end.
        if (object.key <= last) throw unavailable(`${this.#calls.name("list", prefix)}: ${object.key} came after ${last}`);
        last = object.key;
        yield object;
      }
      if (page.nextToken !== undefined && page.objects.length === 0) {
        throw unavailable(`${this.#calls.name("list", prefix)}: an empty page that is not the last`);
      }
      token = page.nextToken;
    } while (token !== undefined);
  }

  async ensureBucket(options?: CallOptions): Promise<void> {
    const timeoutMs = this.#timers.smallCallTimeoutMs;
    const head = await this.#calls.call({ what: "head", method: "HEAD", key: "", expect: [200, 404] }, options, timeoutMs);
    if (head.status === 200) return;
    const body = this.#region === "us-east-1" ? [] : [new TextEncoder().encode(createBucketBody(this.#region))];
    // 409: made by another process meanwhile; if it is someone else's, the next call says so.
    await this.#calls.call({ what: "make", method: "PUT", key: "", body, expect: [200, 409] }, options, timeoutMs);
    await this.#calls.checkBucket(options, timeoutMs);
  }

  async close(): Promise<void> {
    this.#calls.close();
  }

  /** HTTP has no empty range. */
  async #emptyRange(key: string, start: number, options: CallOptions | undefined): Promise<Uint8Array> {
    const info = await this.head(key, options);
    const name = this.#calls.name("get", key);
    if (info === undefined) throw notFound(name);
    if (start > info.sizeBytes) throw unavailable(`${name}: range ${start}+0 lies outside the object of ${info.sizeBytes} bytes`);
    return new Uint8Array(0);
  }

  async #listPage(prefix: string, token: string | undefined, options: CallOptions | undefined): Promise<ListPage> {
    const { listPageKeys, listPageBytesMax } = objectStoreLimits;
    const query: Record<string, string> = { "list-type": "2", "max-keys": String(listPageKeys), prefix };
    if (token !== undefined) query["continuation-token"] = token;
    const call = { what: "list", method: "GET", key: "", query, expect: [200], answerBytesMax: listPageBytesMax } as const;
    const answer = await this.#calls.call(call, options, this.#timers.smallCallTimeoutMs);
    const page = parseListPage(new TextDecoder().decode(answer.body));
    if (page === undefined) throw unavailable(`${this.#calls.name("list", prefix)}: the answer is no list of objects`);
    return page;
  }
}

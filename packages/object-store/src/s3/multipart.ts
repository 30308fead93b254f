import { parts, totalBytes } from "../body.ts";
import { throwIfEnded, unavailable } from "../deadline.ts";
import { invalid } from "../keys.ts";
import { objectStoreLimits, type ObjectStoreTimers } from "../limits.ts";
import type { S3Calls } from "./calls.ts";
import { completeUploadBody, parseError, parseUploadId } from "./xml.ts";

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** One upload in parts: begun when the second part is there, complete or aborted at its end. */
export class MultipartUpload {
  readonly #calls: S3Calls;
  readonly #key: string;
  readonly #timers: ObjectStoreTimers;
  readonly #etags: string[] = [];
  /** Undefined until begun, and again after its end. */
  #uploadId: string | undefined;

  constructor(calls: S3Calls, key: string, timers: ObjectStoreTimers) {
    this.#calls = calls;
    this.#key = key;
    this.#timers = timers;
  }

  /** Sends the body; returns its size. What fits in one part is one PUT: an upload without parts is not allowed, and one call is cheaper. */
  async run(body: AsyncIterable<Uint8Array>, partBytes: number, signal: AbortSignal): Promise<number> {
    let held: Uint8Array[] | undefined;
    let sizeBytes = 0;
    for await (const part of parts(body, partBytes)) {
      throwIfEnded(signal);
      if (held !== undefined) await this.#sendPart(held, signal);
      held = part;
      sizeBytes += totalBytes(part);
    }
    throwIfEnded(signal);
    if (this.#uploadId === undefined && this.#etags.length === 0) {
      await this.#put(held ?? [], signal);
    } else {
      if (held !== undefined) await this.#sendPart(held, signal);
      await this.#complete(signal);
    }
    return sizeBytes;
  }

  /** Frees the parts of an upload that did not end. Best effort: a bucket should also expire unfinished uploads by a rule. */
  async abort(): Promise<void> {
    const uploadId = this.#uploadId;
    if (uploadId === undefined) return;
    this.#uploadId = undefined;
    const call = { what: "abort", method: "DELETE", key: this.#key, query: { uploadId }, expect: [200, 204, 404] } as const;
    await this.#calls.call(call, undefined, this.#timers.abortUploadTimeoutMs);
  }

  async #put(body: Uint8Array[], signal: AbortSignal): Promise<void> {
    const call = { what: "put", method: "PUT", key: this.#key, body, expect: [200] } as const;
    await this.#calls.call(call, { signal }, this.#timers.bodyCallTimeoutMs);
  }

  async #begin(signal: AbortSignal): Promise<string> {
    const call = { what: "begin", method: "POST", key: this.#key, query: { uploads: "" }, body: [], expect: [200] } as const;
    const answer = await this.#calls.call(call, { signal }, this.#timers.smallCallTimeoutMs);
    const uploadId = parseUploadId(text(answer.body));
    if (uploadId === undefined || uploadId === "") throw unavailable(`${this.#name()}: the server gave no upload id`);
    this.#uploadId = uploadId;
    return uploadId;
  }

  async #sendPart(body: Uint8Array[], signal: AbortSignal): Promise<void> {
    const { partsMax } = objectStoreLimits;
    const number = this.#etags.length + 1;
    if (number > partsMax) throw invalid(`${this.#name()}: more than ${partsMax} parts; raise partBytes`);
    const uploadId = this.#uploadId ?? (await this.#begin(signal));
    const query = { partNumber: String(number), uploadId };
    const call = { what: `put part ${number} of`, method: "PUT", key: this.#key, query, body, expect: [200] } as const;
    const { etag } = (await this.#calls.call(call, { signal }, this.#timers.bodyCallTimeoutMs)).headers;
    if (etag === undefined) throw unavailable(`${this.#name()}: the server gave no entity tag for part ${number}`);
    this.#etags.push(etag);
  }

  /** The server may answer 200 at once and an error in the body later. */
  async #complete(signal: AbortSignal): Promise<void> {
    const query = { uploadId: this.#uploadId ?? "" };
    const body = [new TextEncoder().encode(completeUploadBody(this.#etags))];
    const call = { what: "complete", method: "POST", key: this.#key, query, body, expect: [200] } as const;
    const answer = text((await this.#calls.call(call, { signal }, this.#timers.bodyCallTimeoutMs)).body);
    if (!answer.includes("<CompleteMultipartUploadResult")) {
      const { code, message } = parseError(answer);
      throw unavailable(`${this.#name()}: the upload was not completed: ${code} ${message}`.trimEnd());
    }
    this.#uploadId = undefined;
  }

  #name(): string {
    return this.#calls.name("put", this.#key);
  }
}

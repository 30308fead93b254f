import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";

import type { Clock } from "@sluice/runtime";
import { notFound, unavailable, withDeadline } from "../deadline.ts";
import { invalid } from "../keys.ts";
import { objectStoreLimits, type ObjectStoreTimers } from "../limits.ts";
import type { CallOptions } from "../port.ts";
import { exchange, type HttpAnswer, type HttpRequest, type Transport } from "./exchange.ts";
import type { S3Location, Signer } from "./signer.ts";
import { parseError } from "./xml.ts";

/** One signed call to the bucket. */
export interface S3Call {
  readonly method: HttpRequest["method"];
  /** "" for the bucket itself. */
  readonly key: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: readonly Uint8Array[];
  readonly answerBytesMax?: number;
  /** Statuses that are no error; every other one throws. */
  readonly expect: readonly number[];
  /** Word of the messages: "put", "get" ... */
  readonly what: string;
}

/** Of servers that keep objects as files: one key is a folder of another. */
const FOLDER_CLASH = new Set(["ExistingObjectIsDirectory", "ObjectParentIsFile"]);
/** No retry helps. */
const CALLERS_FAULT = new Set(["EntityTooLarge", "InvalidBucketName", "KeyTooLongError", ...FOLDER_CLASH]);

const parsedError = ({ body }: HttpAnswer): ReturnType<typeof parseError> => parseError(new TextDecoder().decode(body));

/** Signs, sends and judges single calls to one bucket. Knows nothing of objects in parts or lists in pages. */
export class S3Calls {
  readonly #clock: Clock;
  readonly #location: S3Location;
  readonly #signer: Signer;
  readonly #folderClashRetryMs: number;
  readonly #transport: Transport;
  #inFlight = 0;
  #closed = false;

  constructor(clock: Clock, location: S3Location, signer: Signer, timers: ObjectStoreTimers) {
    this.#clock = clock;
    this.#location = location;
    this.#signer = signer;
    this.#folderClashRetryMs = timers.folderClashRetryMs;
    const { socketsMax } = objectStoreLimits;
    const agentOptions = { keepAlive: true, maxSockets: socketsMax, maxFreeSockets: socketsMax, timeout: timers.idleSocketMs };
    this.#transport = {
      clock,
      agent: location.endpoint.startsWith("https:") ? new HttpsAgent(agentOptions) : new HttpAgent(agentOptions),
      connectTimeoutMs: timers.connectTimeoutMs,
      stallTimeoutMs: timers.stallTimeoutMs,
    };
  }

  name(what: string, key: string): string {
    return `${what} s3://${this.#location.bucket}/${key}`;
  }

  /**
   * Throws the error that an unexpected status stands for. One attempt, but for keys in each other's way: versitygw also says so of a write into a
   * folder that a delete takes away at that moment.
   */
  async call(call: S3Call, options: CallOptions | undefined, timeoutMs: number): Promise<HttpAnswer> {
    const name = this.name(call.what, call.key);
    const answer = await this.#answer(call, options, timeoutMs);
    if (call.expect.includes(answer.status)) return answer;
    const { code, message } = parsedError(answer);
    const text = `${name}: the server answered ${answer.status} ${code} ${message.slice(0, 200)}`.trimEnd();
    if (answer.status === 404 && code === "NoSuchKey") throw notFound(name);
    if (CALLERS_FAULT.has(code)) throw invalid(text);
    throw unavailable(text);
  }

  /** Any status is a result. All attempts are one of the calls in flight, and share its time. */
  async #answer(call: S3Call, options: CallOptions | undefined, timeoutMs: number): Promise<HttpAnswer> {
    const name = this.name(call.what, call.key);
    if (this.#closed) throw unavailable(`${name}: the store is closed`);
    if (this.#inFlight >= objectStoreLimits.callsInFlightMax) throw unavailable(`${name}: ${this.#inFlight} calls are waiting already`);
    this.#inFlight += 1;
    try {
      return await withDeadline(this.#clock, name, options, timeoutMs, async (signal) => {
        for (let attempt = 1; ; attempt += 1) {
          const answer = await this.#attempt(call, signal);
          const isClash = !call.expect.includes(answer.status) && FOLDER_CLASH.has(parsedError(answer).code);
          if (!isClash || attempt === objectStoreLimits.folderClashAttempts) return answer;
          await this.#clock.sleep(this.#folderClashRetryMs, signal);
        }
      });
    } finally {
      this.#inFlight -= 1;
    }
  }
  async #attempt(call: S3Call, signal: AbortSignal): Promise<HttpAnswer> {
    const url = await this.#signer.sign(call.method, call.key, call.query);
    const { method, headers = {}, body, answerBytesMax = objectStoreLimits.answerBytesMax } = call;
    const what = this.name(call.what, call.key);
    return exchange(this.#transport, { what, method, url, headers, ...(body && { body }), answerBytesMax }, signal);
  }

  /** HEAD of a missing object and of an object in a missing bucket look the same: this tells. Throws when the bucket is not there. */
  async checkBucket(options: CallOptions | undefined, timeoutMs: number): Promise<void> {
    await this.call({ what: "head", method: "HEAD", key: "", expect: [200] }, options, timeoutMs);
  }

  close(): void {
    this.#closed = true;
    this.#transport.agent.destroy();
  }
}

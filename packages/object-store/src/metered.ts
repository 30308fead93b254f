import { codeOf, type ErrorCode } from "@sluice/core/model";
import type { Clock } from "@sluice/runtime";
import { totalBytes } from "./body.ts";
import type { CallOptions, ObjectInfo, ObjectStore } from "./port.ts";

export type ObjectStoreCall = "put" | "putMultipart" | "getRange" | "head" | "delete" | "list";
export interface CallReport {
  readonly call: ObjectStoreCall;
  /** "ok", or the code of the error; a multipart body that throws an error of its own counts as INTERNAL. */
  readonly outcome: "ok" | ErrorCode;
  /** Payload that was stored or read; 0 when the call failed. */
  readonly bytes: number;
  /** A list counts the time that it waited for the store, not the time between its items. */
  readonly latencyMs: number;
}

/** Reports every call once, when it has ended. `onCall` runs on the caller's path: it must be quick and must not throw. */
export function meteredObjectStore(store: ObjectStore, clock: Clock, onCall: (report: CallReport) => void): ObjectStore {
  async function timed<T>(call: ObjectStoreCall, run: () => Promise<T>, bytesOf: (result: T) => number): Promise<T> {
    const startMs = clock.monotonicMs();
    const latencyMs = (): number => clock.monotonicMs() - startMs;
    let result: T;
    try {
      result = await run();
    } catch (error) {
      onCall({ call, outcome: codeOf(error), bytes: 0, latencyMs: latencyMs() });
      throw error;
    }
    onCall({ call, outcome: "ok", bytes: bytesOf(result), latencyMs: latencyMs() });
    return result;
  }
  const none = (): number => 0;
  return {
    put: (key, body, options) =>
      timed(
        "put",
        () => store.put(key, body, options),
        () => totalBytes(body),
      ),
    putMultipart: (key, body, options) =>
      timed(
        "putMultipart",
        () => store.putMultipart(key, body, options),
        (r) => r.sizeBytes,
      ),
    getRange: (key, start, length, options) =>
      timed(
        "getRange",
        () => store.getRange(key, start, length, options),
        (r) => r.length,
      ),
    head: (key, options) => timed("head", () => store.head(key, options), none),
    delete: (key, options) => timed("delete", () => store.delete(key, options), none),
    list: (prefix, options) => meteredList(store, clock, onCall, prefix, options),
    close: () => store.close(),
  };
}

async function* meteredList(
  store: ObjectStore,
  clock: Clock,
  onCall: (report: CallReport) => void,
  prefix: string,
  options: CallOptions | undefined,
): AsyncGenerator<ObjectInfo> {
  let latencyMs = 0;
  let outcome: CallReport["outcome"] = "ok";
  let sinceMs = clock.monotonicMs();
  try {
    for await (const info of store.list(prefix, options)) {
      latencyMs += clock.monotonicMs() - sinceMs;
      yield info;
      sinceMs = clock.monotonicMs();
    }
    latencyMs += clock.monotonicMs() - sinceMs;
  } catch (error) {
    latencyMs += clock.monotonicMs() - sinceMs;
    outcome = codeOf(error);
    throw error;
  } finally {
    onCall({ call: "list", outcome, bytes: 0, latencyMs });
  }
}

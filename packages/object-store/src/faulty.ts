import type { Clock, Random } from "@sluice/runtime";
import { totalBytes } from "./body.ts";
import { unavailable, withDeadline } from "./deadline.ts";
import { invalid } from "./keys.ts";
import type { ObjectStoreCall } from "./metered.ts";
import type { CallOptions, ObjectInfo, ObjectStore } from "./port.ts";

/**
 * What a store may do to its users, all of it seen in the field:
 *
 *     error-before     an error, and nothing was done                           every call
 *     error-after      an error, and all of it was done (the answer got lost)   every call
 *     half-stored      success, and half of the bytes are kept                  put, putMultipart
 *     short-range      success, and half of the bytes are returned              getRange
 *     slow             the call starts `delayMs` later                          every call
 *     list-omits-new   a key stored less than `newForMs` ago is not listed      list
 */
export const FAULTS = ["error-before", "error-after", "half-stored", "short-range", "slow", "list-omits-new"] as const;
export type Fault = (typeof FAULTS)[number];

export interface FaultRule {
  readonly fault: Fault;
  /** 0 to 1, for each call that the rule fits; for `list-omits-new`, for each new key. */
  readonly probability: number;
  /** Default: every call that the fault is made for. */
  readonly calls?: readonly ObjectStoreCall[];
  /** Default "": every key. For a list, the prefix that is asked for. */
  readonly keyPrefix?: string;
  /** The rule ends after so many faults. */
  readonly timesMax?: number;
  readonly delayMs?: number;
  readonly newForMs?: number;
}
export interface FaultyOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly rules: readonly FaultRule[];
}
export interface FaultyObjectStore extends ObjectStore {
  /** Faults done so far. */
  readonly counts: Readonly<Record<Fault, number>>;
  /** From the next call on; `timesMax` counts anew. */
  setRules(rules: readonly FaultRule[]): void;
}

const FITS: Readonly<Record<Fault, (call: ObjectStoreCall) => boolean>> = {
  "error-before": () => true,
  "error-after": () => true,
  "half-stored": (call) => call === "put" || call === "putMultipart",
  "short-range": (call) => call === "getRange",
  slow: () => true,
  "list-omits-new": (call) => call === "list",
};
/** Keys whose age is remembered for `list-omits-new`; the oldest are forgotten, and so listed. */
const NEW_KEYS_MAX = 100_000;

/** Does faults by rule and chance: the same `random` and the same calls give the same faults. */
export function faultyObjectStore(store: ObjectStore, options: FaultyOptions): FaultyObjectStore {
  return new Faulty(store, options);
}

interface LiveRule extends FaultRule {
  left: number;
}
interface Draw {
  readonly faults: ReadonlySet<Fault>;
  readonly delayMs: number;
}

class Faulty implements FaultyObjectStore {
  readonly counts: Record<Fault, number> = {
    "error-before": 0,
    "error-after": 0,
    "half-stored": 0,
    "short-range": 0,
    slow: 0,
    "list-omits-new": 0,
  };
  readonly #store: ObjectStore;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #storedAtMs = new Map<string, number>();
  #rules: LiveRule[] = [];

  constructor(store: ObjectStore, options: FaultyOptions) {
    this.#store = store;
    this.#clock = options.clock;
    this.#random = options.random;
    this.setRules(options.rules);
  }

  setRules(rules: readonly FaultRule[]): void {
    for (const { fault, probability } of rules) {
      if (!(probability >= 0 && probability <= 1)) throw invalid(`probability of ${fault} must be 0 to 1, got ${probability}`);
    }
    this.#rules = rules.map((rule) => ({ ...rule, left: rule.timesMax ?? Number.MAX_SAFE_INTEGER }));
  }

  put(key: string, body: readonly Uint8Array[], options?: CallOptions): Promise<void> {
    return this.#call("put", key, options, async (faults, inner) => {
      await this.#store.put(key, faults.has("half-stored") ? firstHalf(body) : body, inner);
      this.#remember(key);
    });
  }

  putMultipart(
    key: string,
    body: AsyncIterable<Uint8Array>,
    options?: CallOptions & { readonly partBytes?: number },
  ): Promise<{ readonly sizeBytes: number }> {
    return this.#call("putMultipart", key, options, async (faults, inner) => {
      const result = faults.has("half-stored")
        ? await this.#putHalf(key, body, inner)
        : await this.#store.putMultipart(key, body, { ...options, ...inner });
      this.#remember(key);
      return result;
    });
  }

  getRange(key: string, start: number, length: number, options?: CallOptions): Promise<Uint8Array> {
    return this.#call("getRange", key, options, async (faults, inner) => {
      const bytes = await this.#store.getRange(key, start, length, inner);
      return faults.has("short-range") ? bytes.subarray(0, Math.floor(bytes.length / 2)) : bytes;
    });
  }

  head(key: string, options?: CallOptions): Promise<ObjectInfo | undefined> {
    return this.#call("head", key, options, (_faults, inner) => this.#store.head(key, inner));
  }

  delete(key: string, options?: CallOptions): Promise<void> {
    return this.#call("delete", key, options, async (_faults, inner) => {
      await this.#store.delete(key, inner);
      this.#storedAtMs.delete(key);
    });
  }

  async *list(prefix: string, options?: CallOptions): AsyncIterable<ObjectInfo> {
    const { faults, delayMs } = this.#draw("list", prefix);
    if (delayMs > 0) await this.#clock.sleep(delayMs, options?.signal);
    if (faults.has("error-before")) throw this.#error("list", prefix);
    for await (const info of this.#store.list(prefix, options)) {
      if (!this.#omits(info.key, prefix)) yield info;
    }
    if (faults.has("error-after")) throw this.#error("list", prefix);
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  #call<T>(
    call: ObjectStoreCall,
    key: string,
    options: CallOptions | undefined,
    run: (faults: ReadonlySet<Fault>, inner: CallOptions) => Promise<T>,
  ): Promise<T> {
    const { faults, delayMs } = this.#draw(call, key);
    return withDeadline(this.#clock, `faulty: ${call} ${key}`, options, undefined, async (signal) => {
      if (delayMs > 0) await this.#clock.sleep(delayMs, signal);
      if (faults.has("error-before")) throw this.#error(call, key);
      const result = await run(faults, { ...options, signal });
      if (faults.has("error-after")) throw this.#error(call, key);
      return result;
    });
  }

  /** Which faults this call gets. `list-omits-new` is drawn per key, later. */
  #draw(call: ObjectStoreCall, key: string): Draw {
    const faults = new Set<Fault>();
    let delayMs = 0;
    for (const rule of this.#rules) {
      if (rule.fault === "list-omits-new" || !this.#applies(rule, call, key)) continue;
      faults.add(rule.fault);
      if (rule.fault === "slow") delayMs += rule.delayMs ?? 0;
    }
    return { faults, delayMs };
  }

  #applies(rule: LiveRule, call: ObjectStoreCall, key: string): boolean {
    const fits = FITS[rule.fault](call) && (rule.calls?.includes(call) ?? true) && key.startsWith(rule.keyPrefix ?? "");
    if (!fits || rule.left === 0 || this.#random.float() >= rule.probability) return false;
    rule.left -= 1;
    this.counts[rule.fault] += 1;
    return true;
  }

  #omits(key: string, prefix: string): boolean {
    const storedAtMs = this.#storedAtMs.get(key);
    if (storedAtMs === undefined) return false;
    const ageMs = this.#clock.monotonicMs() - storedAtMs;
    const isNew = (rule: LiveRule): boolean => rule.fault === "list-omits-new" && ageMs < (rule.newForMs ?? Number.MAX_SAFE_INTEGER);
    return this.#rules.some((rule) => isNew(rule) && this.#applies(rule, "list", prefix));
  }

  #remember(key: string): void {
    this.#storedAtMs.delete(key);
    this.#storedAtMs.set(key, this.#clock.monotonicMs());
    if (this.#storedAtMs.size <= NEW_KEYS_MAX) return;
    for (const oldest of this.#storedAtMs.keys()) {
      this.#storedAtMs.delete(oldest);
      break;
    }
  }

  /** Tells the size that the caller sent, as the store it plays would. */
  async #putHalf(key: string, body: AsyncIterable<Uint8Array>, inner: CallOptions): Promise<{ readonly sizeBytes: number }> {
    const pieces: Uint8Array[] = [];
    for await (const piece of body) pieces.push(piece);
    await this.#store.put(key, firstHalf(pieces), inner);
    return { sizeBytes: totalBytes(pieces) };
  }

  #error(call: ObjectStoreCall, key: string): Error {
    return unavailable(`faulty: ${call} ${key}: the server answered 500 InternalError`);
  }
}

function firstHalf(body: readonly Uint8Array[]): Uint8Array[] {
  let left = Math.floor(totalBytes(body) / 2);
  const half: Uint8Array[] = [];
  for (const piece of body) {
    half.push(piece.subarray(0, left));
    left -= Math.min(left, piece.length);
  }
  return half;
}

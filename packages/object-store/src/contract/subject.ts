import { expect } from "@jest/globals";
import { codeOf, type ErrorCode } from "@sluice/core/model";
import { systemClock } from "@sluice/runtime";
import type { ObjectInfo, ObjectStore } from "../port.ts";

/** The process behind a store, as the tests treat it. */
export interface ServerControl {
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
  /** On the same address; resolves when it answers. */
  start(): Promise<void>;
  /** SIGSTOP and SIGCONT. */
  pause(): void;
  resume(): void;
  /** Objects survive `kill`. */
  readonly keepsData: boolean;
}
export interface Subject {
  /** Empty at first. */
  readonly store: ObjectStore;
  /** Another client of the same objects, whatever their life. */
  reopen?(): Promise<ObjectStore>;
  /** Names of what unfinished writes have left behind. */
  leftovers?(): Promise<string[]>;
  readonly server?: ServerControl;
  close(): Promise<void>;
}
export interface ContractOptions {
  readonly name: string;
  /** Called once. */
  open(): Promise<Subject>;
  /** The subject has a `server`: adds the tests that kill and pause it. */
  readonly server?: boolean;
}
/** The subject at the time of a test. */
export interface Current {
  readonly subject: Subject;
  readonly store: ObjectStore;
  /** A folder that no other test uses. */
  folder(): string;
}

let folders = 0;
export const tempName = (): string => `contract-${(folders += 1)}`;

/** The code that the promise rejects with; fails the test when it resolves. */
export async function failure(promise: Promise<unknown>): Promise<ErrorCode> {
  let value: unknown;
  try {
    value = await promise;
  } catch (error) {
    return codeOf(error);
  }
  throw new Error(`should have failed, gave ${JSON.stringify(value)}`);
}

export async function listed(store: ObjectStore, prefix: string): Promise<ObjectInfo[]> {
  const out: ObjectInfo[] = [];
  for await (const info of store.list(prefix)) out.push(info);
  return out;
}
export const keysOf = async (store: ObjectStore, prefix: string): Promise<string[]> =>
  (await listed(store, prefix)).map((info) => info.key);

/** Bytes that differ at every place and from seed to seed. */
export function pattern(length: number, seed = 1): Uint8Array {
  const out = new Uint8Array(length);
  let x = (seed * 2_654_435_761) >>> 0 || 1;
  for (let i = 0; i < length; i++) {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    out[i] = x;
  }
  return out;
}

/** Compares without the matcher's walk over every byte. */
export function expectBytes(got: Uint8Array, want: Uint8Array): void {
  expect(got.length).toBe(want.length);
  expect(got.findIndex((byte, i) => byte !== want[i])).toBe(-1);
}
export async function expectObject(store: ObjectStore, key: string, want: Uint8Array): Promise<void> {
  expect((await store.head(key))?.sizeBytes).toBe(want.length);
  expectBytes(await store.getRange(key, 0, want.length), want);
}

export async function* pieces(bytes: Uint8Array, sizes: readonly number[]): AsyncGenerator<Uint8Array> {
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length] ?? 1;
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

/** Runs `work` for 0 to count - 1, at most `width` at a time. */
export async function inParallel(count: number, width: number, work: (i: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: width }, lane));
}

/** Callers retry, and so do tests where a store may refuse: a connection from before the server's death may fail one more call. */
export async function untilAnswered<T>(call: () => Promise<T>): Promise<T> {
  for (let i = 0; ; i++) {
    try {
      return await call();
    } catch (error) {
      if (i === 20 || codeOf(error) !== "OBJECT_STORE_UNAVAILABLE") throw error;
      await systemClock.sleep(50);
    }
  }
}

import { expect } from "@jest/globals";
import { codeOf, type ErrorCode } from "@sluice/core/model";
import type { MetadataStore, Op, TxnResult, WatchBatch, WatchEvent } from "../port.ts";
import type { MetadataContractServer } from "./subject.ts";

export const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
export const text = (value: Uint8Array): string => new TextDecoder().decode(value);
export const put = (key: string, value = "", lease?: string): Op =>
  lease === undefined ? { kind: "put", key, value: bytes(value) } : { kind: "put", key, value: bytes(value), lease };

export const apply = (store: MetadataStore, ...ops: Op[]): Promise<TxnResult> => store.txn({ compare: [], then: ops });

/** The code that a promise is rejected with; "none" when it is not. */
export const codeOfRejection = (promise: Promise<unknown>): Promise<ErrorCode | "none"> =>
  promise.then(
    () => "none",
    (error: unknown) => {
      if (codeOf(error) === "INTERNAL") throw error;
      return codeOf(error);
    },
  );

/** Waits until `holds`, letting time pass; fails after `timeoutMs` of the clock. */
export async function eventually(
  server: MetadataContractServer,
  what: string,
  holds: () => boolean | Promise<boolean>,
  timeoutMs = 15_000,
): Promise<void> {
  for (const endMs = server.clock.monotonicMs() + timeoutMs; !(await holds()); await server.passTime(20)) {
    if (server.clock.monotonicMs() > endMs) throw new Error(`not within ${timeoutMs} ms: ${what}`);
  }
}

/** "put key=value" or "delete key", for comparing with what was expected. */
export const describeEvent = (event: WatchEvent): string =>
  event.type === "put" ? `put ${event.entry.key}=${text(event.entry.value)}` : `delete ${event.key}`;

export const revisionOf = (event: WatchEvent): number => (event.type === "put" ? event.entry.modRevision : event.modRevision);

/** Reads a watch in the background and checks with each batch that revisions come whole, once and in order. */
export class WatchLog {
  readonly events: WatchEvent[] = [];
  revision: number;
  /** Set when the watch ended: undefined = without an error. */
  ended: { readonly error: unknown } | undefined;
  readonly done: Promise<void>;
  readonly #server: MetadataContractServer;
  readonly #stop = new AbortController();

  constructor(server: MetadataContractServer, store: MetadataStore, prefix: string, from: number) {
    this.#server = server;
    this.revision = from - 1;
    this.done = this.#read(store.watch(prefix, from, this.#stop.signal)).then(
      () => {
        this.ended = { error: undefined };
      },
      (error: unknown) => {
        this.ended = { error };
      },
    );
  }

  async #read(watch: AsyncIterable<WatchBatch>): Promise<void> {
    for await (const batch of watch) {
      const revisions = batch.events.map(revisionOf);
      // All of a batch lies above what was delivered before: a revision that came in two parts, or again, shows here.
      expect(Math.min(...revisions, batch.revision)).toBeGreaterThan(this.revision);
      expect(revisions).toEqual(revisions.toSorted((a, b) => a - b));
      expect(batch.revision).toBeGreaterThanOrEqual(revisions.at(-1) ?? 0);
      this.events.push(...batch.events);
      this.revision = batch.revision;
    }
  }

  /** Waits for so many events in all. */
  async until(count: number, timeoutMs = 15_000): Promise<void> {
    await eventually(
      this.#server,
      `${count} events`,
      () => {
        if (this.ended !== undefined) throw this.ended.error ?? new Error(`the watch ended after ${this.events.length} events`);
        return this.events.length >= count;
      },
      timeoutMs,
    );
    expect(this.events.length).toBe(count);
  }

  lines(): string[] {
    return this.events.map(describeEvent);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.done;
    expect(this.ended?.error).toBeUndefined();
  }
}

/** What each case gets: a store, opened for it, and a prefix of its own. */
export interface CaseContext {
  readonly server: MetadataContractServer;
  readonly prefix: string;
  store: MetadataStore;
}
/** Registers a case of the contract as a test. */
export type RunCase = (name: string, body: (context: CaseContext) => Promise<void>) => void;

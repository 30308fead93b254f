import { type ServiceError } from "@grpc/grpc-js";
import { isSluiceError, SluiceError, timers } from "@sluice/core/model";
import type { Logger } from "@sluice/runtime";
import type { WatchBatch, WatchEvent } from "../port.ts";
import { refusal, requireLeader } from "./calls.ts";
import { eventOf, revisionOf, type KeySpace } from "./convert.ts";
import type { Endpoint, Endpoints } from "./endpoints.ts";
import type { WatchClient, WatchResponse } from "./protocol.ts";
import { Backoff, type Clock, type Random } from "./retry.ts";

export interface WatcherParts {
  readonly endpoints: Endpoints;
  readonly keys: KeySpace;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly closing: AbortSignal;
}

const CONNECT_WAIT_MS = 1_000;

/**
 * A watch that survives its streams.
 *
 *      delivered             asked for on reconnect
 *   ... 17 18 19 | 20 21 ... 19 20 21 ...          next = 20
 *                ^ next       ^ dropped, it is below next
 *
 * `next` is the first revision that has not been handed to the reader whole; it moves only with what was handed over, never with the
 * header of an answer that merely says where etcd is: during catch-up that is far ahead of the events.
 *
 * A stream is asked for from `next - 1`: an etcd before 3.6 that was compacted at exactly R may have forgotten that a key was deleted
 * in R, and answers a watch from R without that event. Asked for R - 1 it says "compacted", or has them all.
 */
export async function* watchEtcd(parts: WatcherParts, prefix: string, from: number, signal: AbortSignal): AsyncGenerator<WatchBatch> {
  const position = { next: from };
  const stop = AbortSignal.any([signal, parts.closing]);
  const backoff = new Backoff(timers.metadataRetryMs, parts.random);
  for (;;) {
    const endpoint = await parts.endpoints.ready(parts.clock.monotonicMs() + CONNECT_WAIT_MS, stop);
    if (endpoint !== undefined && !stop.aborted) {
      const before = position.next;
      const failure = yield* readStream(parts, endpoint, prefix, position, stop);
      if (position.next > before) backoff.reset();
      if (!stop.aborted) parts.logger.debug("watch interrupted", { prefix, next: position.next, endpoint: endpoint.address, failure });
      parts.endpoints.failed(endpoint);
    }
    if (signal.aborted) return;
    if (parts.closing.aborted) throw new SluiceError("METADATA_UNAVAILABLE", "the metadata store is closed");
    await parts.clock.sleep(backoff.next(), stop).catch(() => undefined);
  }
}

/** Reads one stream until it fails (the reason is returned) or `stop` aborts. Throws what a new stream would not cure. */
async function* readStream(
  parts: WatcherParts,
  endpoint: Endpoint,
  prefix: string,
  position: { next: number },
  stop: AbortSignal,
): AsyncGenerator<WatchBatch, string> {
  const stream = (endpoint.client("Watch") as unknown as WatchClient).watch(requireLeader());
  const cancel = (): void => stream.cancel();
  stop.addEventListener("abort", cancel, { once: true });
  // The iterator below reports errors; one that arrives when it has ended has no other listener.
  stream.on("error", () => undefined);
  try {
    const start = Math.max(1, position.next - 1);
    stream.write({ create_request: { ...parts.keys.range(prefix), start_revision: start, progress_notify: true, fragment: true } });
    const assembler = new RevisionAssembler(parts.keys, position.next);
    for await (const response of stream as AsyncIterable<WatchResponse>) {
      if (response.canceled) return cancelled(response, position.next);
      if (response.created) continue;
      const batch = assembler.add(response);
      position.next = assembler.next;
      if (batch !== undefined) yield batch;
      if (stop.aborted) return "stopped";
    }
    return "the stream ended";
  } catch (error) {
    if (isSluiceError(error)) throw error;
    const { code, details } = error as ServiceError;
    if (code === undefined) throw error;
    const refused = stop.aborted ? undefined : refusal({ reason: "status", status: code, details });
    if (refused !== undefined) throw refused;
    return details;
  } finally {
    stop.removeEventListener("abort", cancel);
    stream.cancel();
  }
}

function cancelled(response: WatchResponse, next: number): string {
  const compacted = revisionOf(response.compact_revision);
  if (compacted === 0) return response.cancel_reason;
  throw new SluiceError("COMPACTED", `revision ${next} is gone, history begins at ${compacted + 1}`);
}

/**
 * Joins answers to whole revisions. An answer marked `fragment` may end within a revision: of those, the events of the last revision
 * are held back until the next answer, so at most one revision is in memory however long the catch-up is.
 */
export class RevisionAssembler {
  readonly #keys: KeySpace;
  #held: WatchEvent[] = [];
  /** First revision that is not handed out whole. */
  next: number;

  constructor(keys: KeySpace, next: number) {
    this.#keys = keys;
    this.next = next;
  }

  add(response: WatchResponse): WatchBatch | undefined {
    for (const message of response.events) {
      const event = eventOf(this.#keys, message);
      if (revisionOfEvent(event) >= this.next) this.#held.push(event);
    }
    const last = this.#held.at(-1);
    if (last === undefined) return this.#progress(response);
    if (!response.fragment) return this.#hand(this.#held.length);
    const open = revisionOfEvent(last);
    return this.#hand(this.#held.findIndex((event) => revisionOfEvent(event) === open));
  }

  #hand(count: number): WatchBatch | undefined {
    const events = this.#held.slice(0, count);
    const last = events.at(-1);
    if (last === undefined) return undefined;
    this.#held = this.#held.slice(count);
    this.next = revisionOfEvent(last) + 1;
    return { events, revision: this.next - 1 };
  }

  /** An answer without events, that was not an answer to us: etcd has nothing up to and including the header's revision. */
  #progress(response: WatchResponse): WatchBatch | undefined {
    const revision = revisionOf(response.header.revision);
    if (response.events.length > 0 || response.fragment || revision < this.next) return undefined;
    this.next = revision + 1;
    return { events: [], revision };
  }
}

const revisionOfEvent = (event: WatchEvent): number => (event.type === "put" ? event.entry.modRevision : event.modRevision);

import type { JournalEntry } from "@sluice/core/journal";
import { SluiceError } from "@sluice/core/model";
import type { AppendedAnswer, AppendRequest, ControlAnswer, ControlRequest, ReplicaEffect, ReplicaState } from "@sluice/core/replica";
import { checkpointEntries, step } from "@sluice/core/replica";
import type { Clock, Logger } from "@sluice/runtime";
import type { Journal } from "./journal/journal.ts";
import type { LocationTable } from "./journal/locations.ts";
import { locate } from "./journal/restart.ts";
import type { StoreMetrics } from "./metrics.ts";

export interface ReplicaHostOptions {
  readonly state: ReplicaState;
  readonly locations: LocationTable;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: StoreMetrics;
  /** Control calls that wait for the disk. */
  readonly controlsPendingMax: number;
  /** Bytes in the journal's queue above which control calls (recovery appends bring their payload) are refused. */
  readonly queuedBytesMax: number;
}
export type AppendedListener = (answers: readonly AppendedAnswer[]) => void;

/**
 * The one shell around the replica machine: feeds it, performs its effects in order. Everything here is synchronous but the journal:
 *
 *   links, gRPC ─► step ─► journal ─► (disk) ─► durable ─► step ─► answers
 */
export class ReplicaHost {
  readonly state: ReplicaState;
  readonly locations: LocationTable;
  readonly #options: ReplicaHostOptions;
  readonly #origins = new Map<number, AppendedListener>();
  readonly #controls = new Map<number, PromiseWithResolvers<readonly ControlAnswer[]>>();
  #stopping = false;
  readonly #out: ReplicaEffect[] = [];
  #nextOrigin = 1;
  #nextRef = 1;
  #journal: Journal | undefined;
  /** Called with each durable sequence, after the machine: links give their credit back. */
  onDurable: (sequence: number) => void = () => undefined;
  onFailed: (error: unknown) => void = () => undefined;
  onNoSpace: () => void = () => undefined;

  constructor(options: ReplicaHostOptions) {
    this.state = options.state;
    this.locations = options.locations;
    this.#options = options;
  }
  get journal(): Journal {
    if (this.#journal === undefined) throw new Error("the journal is not attached");
    return this.#journal;
  }
  attach(journal: Journal): void {
    this.#journal = journal;
  }

  // What the journal tells.
  placed(entry: JournalEntry, fileNumber: number, at: number, bytes: number): void {
    locate(this.locations, entry, fileNumber, at, bytes);
  }
  durable(sequence: number): void {
    this.#step({ kind: "durable", upTo: sequence });
    this.onDurable(sequence);
  }
  failed(error: unknown): void {
    this.onFailed(error);
    this.#step({ kind: "journal-failed" });
    this.onDurable(Number.MAX_SAFE_INTEGER);
  }
  noSpace(): void {
    this.onNoSpace();
    if (this.#stopping) this.#cutControls();
  }
  /** From now on a call that waits for room on a full disk is given up: the node must be able to stop. */
  stopWaiting(): void {
    this.#stopping = true;
    if (this.journal.waitsForRoom) this.#cutControls();
  }
  #cutControls(): void {
    const reason = new SluiceError("SHUTTING_DOWN", "the storage node stops, and its disk is full");
    for (const call of this.#controls.values()) call.reject(reason);
    this.#controls.clear();
  }

  /** A connection whose appends are answered to `listener`. */
  addOrigin(listener: AppendedListener): number {
    const origin = this.#nextOrigin++;
    this.#origins.set(origin, listener);
    return origin;
  }
  removeOrigin(origin: number): void {
    this.#origins.delete(origin);
    this.#step({ kind: "origin-gone", origin });
  }
  append(origin: number, request: AppendRequest): void {
    this.#step({ kind: "append", origin, nowMs: this.#options.clock.wallMs(), request });
  }
  setDiskFull(full: boolean): void {
    this.#step({ kind: "disk-full", full });
  }
  askRoll(segmentNumber: number): void {
    this.#step({ kind: "ask-roll", segmentNumber });
  }
  /** Resolves when all that the answers promise is durable. Rejects OVERLOADED when too many calls wait. */
  control(requests: readonly ControlRequest[]): Promise<readonly ControlAnswer[]> {
    if (this.#controls.size >= this.#options.controlsPendingMax)
      return Promise.reject(new SluiceError("OVERLOADED", `${this.#controls.size} control calls wait for the disk`));
    if (this.journal.queuedBytes > this.#options.queuedBytesMax)
      return Promise.reject(new SluiceError("OVERLOADED", `${this.journal.queuedBytes} bytes wait for the disk`));
    if (this.#stopping && this.journal.waitsForRoom)
      return Promise.reject(new SluiceError("SHUTTING_DOWN", "the storage node stops, and its disk is full"));
    const ref = this.#nextRef++;
    const call = Promise.withResolvers<readonly ControlAnswer[]>();
    this.#controls.set(ref, call);
    this.#step({ kind: "control", ref, nowMs: this.#options.clock.wallMs(), requests });
    return call.promise;
  }

  /** The whole state as a checkpoint holds it. */
  *checkpoint(): Generator<JournalEntry> {
    yield* checkpointEntries(this.state);
    for (const l of this.locations.bySegment.values()) yield l.toEntry();
  }

  #step(input: Parameters<typeof step>[1]): void {
    const out = this.#out;
    // Listeners may call back in; each call performs its own effects, which stand behind those of its caller.
    const from = out.length;
    step(this.state, input, out);
    // Entries first: a listener that calls back in must not get its entry in front of these.
    const to = out.length;
    for (let i = from; i < to; i++) {
      const e = out[i] as ReplicaEffect;
      if (e.kind === "journal") this.journal.write(e.sequence, e.entry);
    }
    for (let i = from; i < to; i++) this.#perform(out[i] as ReplicaEffect);
    out.length = from;
  }
  #perform(e: ReplicaEffect): void {
    const { metrics, logger } = this.#options;
    switch (e.kind) {
      case "journal":
        break;
      case "appended":
        for (const a of e.answers) if (a.code !== 0) metrics.refused(a.code);
        this.#origins.get(e.origin)?.(e.answers);
        break;
      case "answer": {
        const call = this.#controls.get(e.ref);
        this.#controls.delete(e.ref);
        call?.resolve(e.answers);
        break;
      }
      case "dropped":
        this.locations.drop(e.segmentNumber);
        break;
      case "alarm": {
        const s = this.state.byNumber.get(e.segmentNumber);
        metrics.alarm();
        logger.error("segment alarm", { segment: s?.key, partition: s?.partitionKey, reason: e.message });
        break;
      }
    }
  }
}

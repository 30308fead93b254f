import type { ReplyEffect } from "@sluice/core/partition";
import { makeBatch } from "../checkers/batch-id.ts";
import type { Batch, History } from "../checkers/history.ts";
import type { Broker } from "../world/broker.ts";
import type { Network } from "../world/network.ts";
import { Process } from "../world/process.ts";
import type { Rng } from "../world/random.ts";
import type { Scheduler } from "../world/scheduler.ts";

interface Flight {
  /** Number of the write at this producer. */
  readonly index: number;
  /** One, or a run of several that are written together. */
  readonly batches: readonly Batch[];
  readonly records: number;
  readonly sequence: number;
  attempt: number;
  waiting: boolean;
  /** Everything before it was acknowledged when it was last sent. */
  oldest: boolean;
}
export interface ProducerOptions {
  readonly name: string;
  readonly producerId: number;
  readonly idempotent: boolean;
  readonly inFlight: number;
  readonly pauseMs: number;
  readonly requestTimeoutMs: number;
}

/**
 * A client. The idempotent kind sends each batch until it is acknowledged, several at once; the other kind sends once and lives with an
 * unknown outcome.
 */
export class Producer {
  readonly process: Process;
  readonly options: ProducerOptions;
  stopped = false;
  readonly #flights: Flight[] = [];
  #sequence = 0;
  #index = 0;
  #target: Broker;
  readonly #brokers: readonly Broker[];
  readonly #history: History;
  readonly #network: Network;
  readonly #scheduler: Scheduler;
  readonly #rng: Rng;
  readonly #nextId: () => number;

  constructor(
    options: ProducerOptions,
    world: { brokers: readonly Broker[]; history: History; network: Network; scheduler: Scheduler; rng: Rng; nextId: () => number },
  ) {
    this.process = new Process(options.name);
    this.options = options;
    this.#brokers = world.brokers;
    this.#history = world.history;
    this.#network = world.network;
    this.#scheduler = world.scheduler;
    this.#rng = world.rng;
    this.#nextId = world.nextId;
    this.#target = this.#rng.pick(this.#brokers);
    this.#later();
  }
  get idle(): boolean {
    return this.#flights.length === 0;
  }
  #later(): void {
    this.#scheduler.after(this.#rng.between(0.2, 1.8) * this.options.pauseMs, () => {
      if (!this.stopped && this.#mayProduce()) this.#produce();
      this.#later();
    });
  }
  /** No further ahead of the oldest batch without an answer than the owner remembers. */
  #mayProduce(): boolean {
    return this.#index - (this.#flights[0]?.index ?? this.#index) < this.options.inFlight;
  }
  #newBatch(): Batch {
    const { name, idempotent } = this.options;
    const batch: Batch = {
      id: this.#nextId(),
      producer: name,
      idempotent,
      records: this.#rng.int(1, 3),
      firstSentMs: this.#scheduler.now,
      ackedMs: -1,
      offset: -1,
    };
    this.#history.batches.set(batch.id, batch);
    return batch;
  }
  #produce(): void {
    const batches = [this.#newBatch()];
    // Only batches without a producer id may be written together.
    if (!this.options.idempotent) for (let more = this.#rng.int(0, 2); more > 0; more--) batches.push(this.#newBatch());
    const records = batches.reduce((sum, b) => sum + b.records, 0);
    const flight: Flight = {
      index: this.#index++,
      batches,
      records,
      sequence: this.options.idempotent ? this.#sequence : -1,
      attempt: 0,
      waiting: false,
      oldest: false,
    };
    this.#sequence += records;
    this.#flights.push(flight);
    this.#send(flight);
  }

  trace: (line: string) => void = () => undefined;
  #send(flight: Flight): void {
    const attempt = ++flight.attempt;
    flight.waiting = true;
    flight.oldest = this.#flights[0] === flight;
    const { producerId, idempotent, requestTimeoutMs } = this.options;
    const made = flight.batches.map((batch) =>
      makeBatch({
        id: batch.id,
        records: batch.records,
        producerId: idempotent ? producerId : -1,
        producerEpoch: idempotent ? 0 : -1,
        sequence: flight.sequence,
      }),
    );
    const { header } = made[0] as (typeof made)[0];
    const run = made.length > 1 ? { batches: made.length, records: flight.records, maxTimestamp: header.maxTimestamp } : undefined;
    const broker = this.#target;
    this.trace(`${this.options.name} sends ${namesOf(flight)} (sequence ${flight.sequence} +${flight.records}) to ${broker.name}`);
    const { life } = broker.process;
    this.#network.send(this.options.name, broker.process, () => {
      if (broker.process.life !== life) return;
      // Delivered twice = two requests of the same bytes: each gets its own copy, since the owner stamps in place.
      const batch = joined(made.map((m) => m.bytes));
      const ask = { batch, header, run, expectedBaseOffset: -1, fenceToken: -1, waitMs: requestTimeoutMs };
      broker.append(ask, (reply) => this.#network.send(broker.name, this.process, () => this.#onReply(flight, attempt, reply)));
    });
    this.#scheduler.after(requestTimeoutMs * 1.5, () => {
      if (flight.attempt === attempt && flight.waiting) this.#failed(flight, "TIMED_OUT");
    });
  }
  #onReply(flight: Flight, attempt: number, reply: ReplyEffect): void {
    this.trace(`${this.options.name} has ${namesOf(flight)} answered: ${reply.code ?? `stored at ${reply.baseOffset}`}`);
    if (reply.code === undefined) {
      let offset = reply.baseOffset;
      for (const batch of flight.batches) {
        this.#history.acknowledged(batch, offset, this.#scheduler.now);
        offset += batch.records;
      }
      return this.#done(flight);
    }
    if (flight.attempt !== attempt || !flight.waiting || !this.#flights.includes(flight)) return;
    if (reply.code === "NOT_OWNER") {
      const named = this.#brokers.find((b) => b.id === reply.target);
      this.#target = named ?? this.#rng.pick(this.#brokers);
    }
    this.#failed(flight, reply.code);
  }
  #failed(flight: Flight, code: string): void {
    flight.waiting = false;
    if (!this.options.idempotent) return this.#done(flight);
    if (flight.oldest && FINAL.has(code))
      this.#history.violation(`${this.options.name}: its oldest batch ${namesOf(flight)} (sequence ${flight.sequence}) got ${code}`);
    if (code === "TIMED_OUT") this.#target = this.#rng.pick(this.#brokers);
    this.#scheduler.after(this.#rng.between(1, 15), () => {
      if (!flight.waiting && this.#flights.includes(flight)) this.#send(flight);
    });
  }
  #done(flight: Flight): void {
    const at = this.#flights.indexOf(flight);
    if (at >= 0) this.#flights.splice(at, 1);
  }
}

/** What the oldest batch of a producer, which goes again until it is stored, must never be told. */
const FINAL: ReadonlySet<string> = new Set(["OUT_OF_ORDER_SEQUENCE", "UNKNOWN_PRODUCER", "DUPLICATE_SEQUENCE", "INVALID_PRODUCER_EPOCH"]);
const namesOf = (flight: Flight): string => flight.batches.map((b) => b.id).join(" ");
function joined(parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((sum, p) => sum + p.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

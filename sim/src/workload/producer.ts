import type { ReplyEffect } from "@sluice/core/partition";
import { makeBatch } from "../checkers/batch-id.ts";
import type { Batch, History } from "../checkers/history.ts";
import type { Broker } from "../world/broker.ts";
import type { Network } from "../world/network.ts";
import { Process } from "../world/process.ts";
import type { Rng } from "../world/random.ts";
import type { Scheduler } from "../world/scheduler.ts";

interface Flight {
  /** Number of the batch at this producer. */
  readonly index: number;
  readonly batch: Batch;
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
  #produce(): void {
    const id = this.#nextId();
    const records = this.#rng.int(1, 3);
    const batch: Batch = {
      id,
      producer: this.options.name,
      idempotent: this.options.idempotent,
      records,
      firstSentMs: this.#scheduler.now,
      ackedMs: -1,
      offset: -1,
    };
    this.#history.batches.set(id, batch);
    const flight: Flight = {
      index: this.#index++,
      batch,
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
    const { batch } = flight;
    const { producerId, idempotent, requestTimeoutMs } = this.options;
    const made = makeBatch({
      id: batch.id,
      records: batch.records,
      producerId: idempotent ? producerId : -1,
      producerEpoch: idempotent ? 0 : -1,
      sequence: flight.sequence,
    });
    const broker = this.#target;
    this.trace(`${this.options.name} sends ${batch.id} (sequence ${flight.sequence} +${batch.records}) to ${broker.name}`);
    const { life } = broker.process;
    this.#network.send(this.options.name, broker.process, () => {
      if (broker.process.life !== life) return;
      // Delivered twice = two requests of the same bytes: each gets its own copy, since the owner stamps in place.
      const ask = { batch: made.bytes.slice(), header: made.header, expectedBaseOffset: -1, fenceToken: -1, waitMs: requestTimeoutMs };
      broker.append(ask, (reply) => this.#network.send(broker.name, this.process, () => this.#onReply(flight, attempt, reply)));
    });
    this.#scheduler.after(requestTimeoutMs * 1.5, () => {
      if (flight.attempt === attempt && flight.waiting) this.#failed(flight, "TIMED_OUT");
    });
  }
  #onReply(flight: Flight, attempt: number, reply: ReplyEffect): void {
    this.trace(`${this.options.name} has ${flight.batch.id} answered: ${reply.code ?? `stored at ${reply.baseOffset}`}`);
    if (reply.code === undefined) {
      this.#history.acknowledged(flight.batch, reply.baseOffset, this.#scheduler.now);
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
    if (flight.oldest && (code === "OUT_OF_ORDER_SEQUENCE" || code === "DUPLICATE_SEQUENCE" || code === "INVALID_PRODUCER_EPOCH"))
      this.#history.violation(`${this.options.name}: its oldest batch ${flight.batch.id} (sequence ${flight.sequence}) got ${code}`);
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

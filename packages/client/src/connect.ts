import { setMaxListeners } from "node:events";
import { SluiceError } from "@sluice/core/model";
import { systemClock } from "@sluice/runtime/clock";
import { systemRandom } from "@sluice/runtime/random";
import { createAdmin, createCall } from "./admin.ts";
import { cancelled, Connection } from "./connection.ts";
import { SluiceConsumer } from "./consumer.ts";
import { SluiceGroupConsumer } from "./group-consumer.ts";
import { createGroups } from "./groups.ts";
import { SluiceProducer } from "./producer.ts";
import { clientLimits, clientTimers } from "./timing.ts";
import type { ClientEvent, ConnectOptions, Sluice } from "./sluice-types.ts";

const ENDPOINT = /^(\[[0-9a-fA-F:.]+\]|[^\s:/[\]]+):([0-9]{1,5})$/;

/**
 * Connects to a cluster. Resolves when one endpoint accepts the connection.
 * Fails with INVALID_ARGUMENT (endpoints), UNREACHABLE (none accepts within `connectTimeoutMs`), CANCELLED (signal).
 */
export async function connect(options: ConnectOptions): Promise<Sluice> {
  const { endpoints, signal } = options;
  if (endpoints.length === 0 || endpoints.length > clientLimits.endpointsMax)
    throw new SluiceError("INVALID_ARGUMENT", `endpoints: 1 to ${clientLimits.endpointsMax} of the form host:port`);
  for (const endpoint of endpoints) {
    if (!ENDPOINT.test(endpoint))
      throw new SluiceError("INVALID_ARGUMENT", `endpoint ${JSON.stringify(endpoint)} is not of the form host:port`);
  }
  if (signal?.aborted === true) throw cancelled(signal);
  const connection = new Connection({
    endpoints: [...new Set(endpoints)],
    clientId: options.clientId,
    clock: options.clock ?? systemClock,
    random: options.random ?? systemRandom,
    onEvent: options.onEvent ?? (() => undefined),
    tracing: options.tracing,
  });
  const client = new Client(connection, options);
  try {
    await connection.call(async () => undefined, {
      timeoutMs: options.connectTimeoutMs ?? clientTimers.connectTimeoutMs,
      signal,
      repeatable: true,
    });
  } catch (error) {
    await client.close();
    throw error;
  }
  return client;
}

class Client implements Sluice {
  readonly admin;
  readonly groups;
  readonly #connection: Connection;
  readonly #options: ConnectOptions;
  readonly #call;
  readonly #closing = new AbortController();
  readonly #producers = new Set<SluiceProducer>();
  readonly #consumers = new Set<SluiceConsumer>();
  readonly #members = new Set<SluiceGroupConsumer>();
  readonly #traceparent: () => string | undefined;
  readonly #onAbort = (): void => this.#abort();
  #closed: Promise<void> | undefined;

  constructor(connection: Connection, options: ConnectOptions) {
    this.#connection = connection;
    this.#options = options;
    // Every open call listens to it.
    setMaxListeners(0, this.#closing.signal);
    this.#traceparent = options.traceparent ?? (() => undefined);
    const timeoutMs = options.requestTimeoutMs ?? clientTimers.requestTimeoutMs;
    this.#call = createCall(connection, timeoutMs, this.#closing.signal, this.#traceparent);
    this.admin = createAdmin(this.#call);
    this.groups = createGroups(this.#call);
    options.signal?.addEventListener("abort", this.#onAbort, { once: true });
  }
  get endpoint(): string {
    return this.#connection.endpoint;
  }
  producer(options: Parameters<Sluice["producer"]>[0] = {}): SluiceProducer {
    this.#check();
    const emit = (event: ClientEvent): void => this.#options.onEvent?.(event);
    const producer = new SluiceProducer(this.#connection, this.#call, options, {
      traceparent: this.#traceparent,
      onClosed: (p) => this.#producers.delete(p),
      onNewIdentity: (topic, partition, error) => emit({ type: "new_producer_id", topic, partition, error }),
    });
    this.#producers.add(producer);
    return producer;
  }
  consumer(options: Parameters<Sluice["consumer"]>[0]): SluiceConsumer {
    this.#check();
    const consumer = new SluiceConsumer(this.#connection, this.#call, options, (c) => this.#consumers.delete(c));
    this.#consumers.add(consumer);
    return consumer;
  }
  subscribe(options: Parameters<Sluice["subscribe"]>[0]): SluiceGroupConsumer {
    this.#check();
    const member = new SluiceGroupConsumer(this.#connection, this.#call, options, {
      onEvent: (event) => this.#options.onEvent?.(event),
      onClosed: (m) => this.#members.delete(m),
    });
    this.#members.add(member);
    return member;
  }
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
  async #close(): Promise<void> {
    await Promise.all([...this.#consumers, ...this.#members].map((c) => c.close()));
    await Promise.all([...this.#producers].map((p) => p.close()));
    this.#end(new SluiceError("SHUTTING_DOWN", "the client is closed"));
  }
  #abort(): void {
    const error = cancelled(this.#options.signal as AbortSignal);
    for (const producer of this.#producers) producer.abort(error);
    for (const consumer of [...this.#consumers, ...this.#members]) consumer.abort(error);
    this.#end(error);
  }
  #end(error: SluiceError): void {
    this.#options.signal?.removeEventListener("abort", this.#onAbort);
    if (!this.#closing.signal.aborted) this.#closing.abort(error);
    this.#connection.close(error);
  }
  #check(): void {
    if (this.#connection.closed !== undefined) throw this.#connection.closed;
    if (this.#closed !== undefined) throw new SluiceError("SHUTTING_DOWN", "the client is closed");
  }
}

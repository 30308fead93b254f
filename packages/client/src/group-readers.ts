import type { SluiceError } from "@sluice/core/model";
import type { Call } from "./admin.ts";
import type { Connection } from "./connection.ts";
import { SluiceConsumer } from "./consumer.ts";
import { type Place, placeKey } from "./group-places.ts";
import { TopicReader } from "./group-reader.ts";
import type { SubscribeOptions } from "./group-types.ts";
import { clientTimers } from "./timing.ts";
import type { RecordBatch } from "./types.ts";

/** The readers of a member, one a topic, in turn. */
export class GroupReaders {
  readonly #connection: Connection;
  readonly #call: Call;
  readonly #options: SubscribeOptions;
  readonly #places: ReadonlyMap<string, Place>;
  readonly #changed: () => void;
  readonly #readers = new Map<string, TopicReader>();
  #turn = 0;
  #closed = false;

  /** `changed` is called when there may be something to take. */
  constructor(connection: Connection, call: Call, options: SubscribeOptions, places: ReadonlyMap<string, Place>, changed: () => void) {
    this.#connection = connection;
    this.#call = call;
    this.#options = options;
    this.#places = places;
    this.#changed = changed;
  }
  /** The topic's reader, made anew for what is read now: each partition goes on where the last batch taken of it ended. */
  open(topic: string): void {
    this.#readers.get(topic)?.close();
    this.#readers.delete(topic);
    const places = [...this.#places.values()].filter((p) => p.topic === topic && !p.revoking);
    if (places.length === 0 || this.#closed) return;
    const { creditBytes, checkCrc, from = "earliest" } = this.#options;
    const source = new SluiceConsumer(
      this.#connection,
      this.#call,
      {
        topic,
        partitions: places.map((p) => p.partition),
        from: new Map(places.map((p) => [p.partition, { offset: p.taken }])),
        onOutOfRange: from,
        ...(creditBytes === undefined ? {} : { creditBytes }),
        ...(checkCrc === undefined ? {} : { checkCrc }),
      },
      () => undefined,
    );
    this.#readers.set(topic, new TopicReader(topic, source, this.#changed));
  }
  /** The next batch of a partition that is read. Throws what a reader failed with. */
  take(): { readonly place: Place; readonly batch: RecordBatch } | undefined {
    const readers = [...this.#readers.values()];
    for (let i = 0; i < readers.length; i++) {
      const reader = readers[(this.#turn + i) % readers.length] as TopicReader;
      const failure = reader.takeFailure();
      if (failure !== undefined) this.#failed(reader, failure);
      const batch = reader.take();
      const place = batch === undefined ? undefined : this.#places.get(placeKey(batch));
      if (batch === undefined || place === undefined || place.revoking) continue;
      this.#turn = (this.#turn + i + 1) % readers.length;
      place.taken = batch.nextOffset;
      return { place, batch };
    }
    return undefined;
  }
  close(): void {
    this.#closed = true;
    for (const reader of this.#readers.values()) reader.close();
    this.#readers.clear();
  }

  /** A topic that is not there (yet, or any more) is no failure of the group: its partitions are taken away when the server has seen it. */
  #failed(reader: TopicReader, failure: SluiceError): void {
    const { topic } = reader;
    const again = (): void => {
      if (this.#readers.get(topic) === reader) this.open(topic);
    };
    if (failure.code !== "UNKNOWN_TOPIC" && failure.code !== "UNKNOWN_PARTITION") {
      again();
      throw failure;
    }
    this.#connection.clock.setTimer(clientTimers.groupTopicRetryMs, again, { unref: true });
  }
}

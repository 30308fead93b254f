import { asSluiceError, type SluiceError } from "@sluice/core/model";
import type { RecordBatch } from "./types.ts";

/** A source of batches that may be ended: a consumer of one topic. */
export interface BatchSource {
  batches(): AsyncIterable<RecordBatch>;
  close(): Promise<void>;
}

/** Reads one topic one batch ahead, and goes on when that is taken. */
export class TopicReader {
  readonly topic: string;
  readonly #source: BatchSource;
  readonly #changed: () => void;
  #held: RecordBatch | undefined;
  #failure: SluiceError | undefined;
  #resume: (() => void) | undefined;
  #closed = false;

  /** `changed` is called when there is a batch or a failure to take. */
  constructor(topic: string, source: BatchSource, changed: () => void) {
    this.topic = topic;
    this.#source = source;
    this.#changed = changed;
    void this.#pump();
  }
  /** Told once. */
  takeFailure(): SluiceError | undefined {
    const failure = this.#failure;
    this.#failure = undefined;
    return failure;
  }
  take(): RecordBatch | undefined {
    const batch = this.#held;
    this.#held = undefined;
    if (batch !== undefined) this.#resume?.();
    return batch;
  }
  close(): void {
    this.#closed = true;
    this.#held = undefined;
    this.#resume?.();
    void this.#source.close();
  }

  async #pump(): Promise<void> {
    try {
      for await (const batch of this.#source.batches()) {
        if (this.#closed) return;
        this.#held = batch;
        this.#changed();
        await new Promise<void>((resolve) => (this.#resume = resolve));
      }
    } catch (error) {
      if (this.#closed) return;
      this.#failure = asSluiceError(error);
      this.#changed();
    }
  }
}

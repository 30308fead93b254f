import { asSluiceError, SluiceError } from "@sluice/core/model";
import type { ConsumedRecord, RecordBatch } from "./types.ts";

const DONE = { done: true as const, value: undefined };

/** A batch that is being given out, and how far the iteration is in it. */
export interface Step<Of> {
  /** Whose position moves with it. */
  readonly of: Of;
  readonly batch: RecordBatch;
  given: number;
}
/** The next record of a step that is not over. */
export const nextRecord = (step: Step<unknown>): ConsumedRecord => step.batch.records[step.given++] as ConsumedRecord;
export const isOver = ({ batch, given }: Step<unknown>): boolean => given === batch.records.length;
/** Offset behind what was given. */
export const positionIn = (step: Step<unknown>): number =>
  isOver(step) ? step.batch.nextOffset : (step.batch.records[step.given - 1] as ConsumedRecord).offset + 1;
/** The records that were not given yet. */
export const restOf = ({ batch, given }: Step<unknown>): RecordBatch =>
  given === 0 ? batch : { ...batch, records: batch.records.slice(given) };

/** Iterations over one source, one at a time. What is there is given without waiting; whoever waits is woken by `wake`. */
export class Iteration {
  readonly #ended: () => boolean;
  readonly #asked: () => void;
  #waiting = false;
  #wake: (() => void) | undefined;

  /** `ended` is asked when there is nothing to give: true = nothing comes any more; it throws what the source failed with. `asked`: somebody wants more. */
  constructor(ended: () => boolean, asked: () => void = () => undefined) {
    this.#ended = ended;
    this.#asked = asked;
  }
  /** Somebody waits for more. */
  get isWaiting(): boolean {
    return this.#waiting;
  }
  wake(): void {
    this.#wake?.();
  }
  /** `take` gives what there is, undefined = nothing now; what it throws fails that step alone. */
  iterator<T>(take: () => T | undefined): AsyncIterableIterator<T> {
    let over = false;
    const next = (): Promise<IteratorResult<T, undefined>> => {
      if (over) return Promise.resolve(DONE);
      if (this.#waiting) return Promise.reject(new SluiceError("INVALID_ARGUMENT", "the consumer is being iterated already"));
      let value: T | undefined;
      try {
        this.#asked();
        value = take();
      } catch (error) {
        return Promise.reject(asSluiceError(error));
      }
      return value === undefined ? this.#waitFor(take) : Promise.resolve({ done: false, value });
    };
    const iterator: AsyncIterableIterator<T> = {
      next,
      return: () => {
        over = true;
        return Promise.resolve(DONE);
      },
      [Symbol.asyncIterator]: () => iterator,
    };
    return iterator;
  }
  async #waitFor<T>(take: () => T | undefined): Promise<IteratorResult<T, undefined>> {
    this.#waiting = true;
    try {
      for (;;) {
        const value = take();
        if (value !== undefined) return { done: false, value };
        if (this.#ended()) return DONE;
        await new Promise<void>((resolve) => (this.#wake = resolve));
        this.#wake = undefined;
      }
    } finally {
      this.#waiting = false;
    }
  }
}

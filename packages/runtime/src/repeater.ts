import type { Clock, Timer } from "./clock.ts";

export interface RepeaterOptions {
  readonly clock: Clock;
  /** From the end of a run to the beginning of the next, ms. */
  readonly intervalMs: number;
  readonly work: () => Promise<void>;
  /** Of a run that failed; the next one comes all the same. */
  readonly onError: (error: unknown) => void;
}

/** Does something again and again until it is stopped; two runs never overlap, and none keeps the process alive. */
export class Repeater {
  readonly #options: RepeaterOptions;
  #timer: Timer | undefined;
  #stopped = false;

  constructor(options: RepeaterOptions) {
    this.#options = options;
  }
  /** A run that is under way may ask, to end early. */
  get stopped(): boolean {
    return this.#stopped;
  }
  /** The first run comes after one interval. */
  start(): void {
    if (this.#stopped) return;
    const { clock, intervalMs } = this.#options;
    this.#timer = clock.setTimer(intervalMs, () => void this.#run(), { unref: true });
  }
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }
  async #run(): Promise<void> {
    try {
      await this.#options.work();
    } catch (error) {
      this.#options.onError(error);
    } finally {
      this.start();
    }
  }
}

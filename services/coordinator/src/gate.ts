import { SluiceError } from "@sluice/core/model";

/** Holds calls up until it opens or breaks, once. */
export class Gate {
  readonly #opened = Promise.withResolvers<void>();
  #isOpen = false;
  #broken: SluiceError | undefined;

  constructor() {
    this.#opened.promise.catch(() => undefined);
  }
  open(): void {
    this.#isOpen = true;
    this.#opened.resolve();
  }
  /** Whoever waits hears `error`, and whoever comes later. */
  break(error: SluiceError): void {
    this.#broken ??= error;
    this.#opened.reject(error);
  }
  /** Throws why it broke, or COORDINATOR_NOT_AVAILABLE when `signal` aborts meanwhile. */
  async pass(signal: AbortSignal): Promise<void> {
    if (this.#broken !== undefined) throw this.#broken;
    if (this.#isOpen) return;
    signal.throwIfAborted();
    let give: (() => void) | undefined;
    const aborted = new Promise<never>((_, reject) => {
      give = () => reject(new SluiceError("COORDINATOR_NOT_AVAILABLE", "the group's shard is still being loaded"));
      signal.addEventListener("abort", give, { once: true });
    });
    try {
      await Promise.race([this.#opened.promise, aborted]);
    } finally {
      if (give !== undefined) signal.removeEventListener("abort", give);
    }
  }
}

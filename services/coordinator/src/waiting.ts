import type { Ticket } from "@sluice/core/group";
import type { SluiceError } from "@sluice/core/model";

/** Requests that wait for the other members of their group, by ticket. */
export class Waiting<R> {
  readonly #open = new Map<Ticket, { readonly resolve: (reply: R) => void; readonly reject: (error: unknown) => void }>();
  #next = 1;
  #closed: SluiceError | undefined;

  get size(): number {
    return this.#open.size;
  }
  /** The answer, or the reason of `signal` when nobody wants it any more. Throws what `close` was told. */
  open(signal: AbortSignal): { readonly ticket: Ticket; readonly answer: Promise<R> } {
    if (this.#closed !== undefined) throw this.#closed;
    const ticket = this.#next++;
    const answer = new Promise<R>((resolve, reject) => {
      const end = (): void => {
        this.#open.delete(ticket);
        signal.removeEventListener("abort", give);
      };
      const give = (): void => (end(), reject(signal.reason as Error));
      this.#open.set(ticket, { resolve: (reply) => (end(), resolve(reply)), reject: (error) => (end(), reject(error as Error)) });
      if (signal.aborted) give();
      else signal.addEventListener("abort", give, { once: true });
    });
    // It may end before anybody looks at it.
    answer.catch(() => undefined);
    return { ticket, answer };
  }
  answer(ticket: Ticket, reply: R): void {
    this.#open.get(ticket)?.resolve(reply);
  }
  /** Whoever waits hears `error`, and whoever comes later. */
  close(error: SluiceError): void {
    this.#closed ??= error;
    for (const { reject } of this.#open.values()) reject(error);
  }
}

/** Something that runs, pauses, dies and starts again. What arrives while it is paused is handled when it goes on. */
export class Process {
  readonly name: string;
  up = true;
  paused = false;
  /** Grows with each start: what was meant for an earlier life is not delivered to a later one. */
  life = 1;
  #waiting: (() => void)[] = [];

  constructor(name: string) {
    this.name = name;
  }
  deliver(run: () => void): void {
    if (!this.up) return;
    if (this.paused) this.#waiting.push(run);
    else run();
  }
  /** Wraps `run` so that it does nothing in another life. */
  inThisLife(run: () => void): () => void {
    const { life } = this;
    return () => {
      if (this.life === life) this.deliver(run);
    };
  }
  pause(): void {
    this.paused = true;
  }
  resume(): void {
    this.paused = false;
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const run of waiting) this.deliver(run);
  }
  die(): void {
    this.up = false;
    this.paused = false;
    this.#waiting = [];
    this.life++;
  }
}

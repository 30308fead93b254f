interface Event {
  readonly at: number;
  readonly sequence: number;
  readonly run: () => void;
}

/** Virtual time: a heap of (time, sequence) events. Nothing happens but what is in it. */
export class Scheduler {
  now = 0;
  #sequence = 0;
  readonly #heap: Event[] = [];

  at(time: number, run: () => void): void {
    const event = { at: Math.max(time, this.now), sequence: this.#sequence++, run };
    const heap = this.#heap;
    heap.push(event);
    let i = heap.length - 1;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (!before(event, heap[parent] as Event)) break;
      heap[i] = heap[parent] as Event;
      i = parent;
    }
    heap[i] = event;
  }
  after(ms: number, run: () => void): void {
    this.at(this.now + ms, run);
  }
  /** Runs everything up to `until`; stops early when `stop` says so. */
  run(until: number, stop: () => boolean = () => false): void {
    for (;;) {
      const next = this.#heap[0];
      if (stop()) return;
      if (next === undefined || next.at > until) break;
      this.#pop();
      this.now = next.at;
      next.run();
    }
    if (this.now < until) this.now = until;
  }
  #pop(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1] as Event, heap[child] as Event)) child++;
      if (!before(heap[child] as Event, last)) break;
      heap[i] = heap[child] as Event;
      i = child;
    }
    heap[i] = last;
  }
}
const before = (a: Event, b: Event): boolean => a.at < b.at || (a.at === b.at && a.sequence < b.sequence);

import type { GroupRecord, ShardState } from "@sluice/core/group";
import { SluiceError, type ErrorCode } from "@sluice/core/model";
import type { Clock, Timer } from "@sluice/runtime";

/** What a request that changes the state comes to: the reply holds once the records are durable and replayed. */
export interface Decision<R> {
  readonly records: readonly GroupRecord[];
  readonly reply: R;
}
export interface ChangeRequest<R> {
  /** `<tenant>/<group>`. */
  readonly key: string;
  /** Decided only on a state that holds everything decided before it for its group. */
  readonly isExclusive: boolean;
  readonly bytes: number;
  /** May be asked more than once; `nowMs` (wall clock at the arrival) is the same each time. */
  readonly decide: (state: ShardState, nowMs: number) => Decision<R>;
}
/** A request that changes the state, from its arrival to its answer. */
export interface Change {
  readonly request: ChangeRequest<unknown>;
  /** Wall clock at the arrival: a request that is decided twice gives the same records. */
  readonly arrivedMs: number;
  decision: Decision<unknown> | undefined;
  /** Some append that holds it may be stored, now or later, and the log has not told yet. */
  uncertain: boolean;
  done: boolean;
  readonly answer: (reply: unknown) => void;
  readonly fail: (code: ErrorCode, message: string) => void;
}
/** A question to the state, answered once the state is known to be the newest. */
export interface Question {
  done: boolean;
  readonly answer: (state: ShardState) => void;
  readonly fail: (code: ErrorCode, message: string) => void;
}
export interface RequestQueueOptions {
  readonly clock: Clock;
  /** Bytes of changes that wait; more are refused with OVERLOADED. */
  readonly bytesMax: number;
  readonly questionsMax: number;
}
const THROTTLE_MS = 50;

/** What waits for a shard, in order of arrival. Every entry ends at its deadline, wherever it is by then. */
export class RequestQueue {
  readonly #options: RequestQueueOptions;
  #changes: Change[] = [];
  #questions: Question[] = [];
  /** Everything that has no answer yet, queued or in an append. */
  readonly #open = new Set<Change | Question>();
  #bytes = 0;
  #wake: (() => void) | undefined;
  #closed: ErrorCode | undefined;

  constructor(options: RequestQueueOptions) {
    this.#options = options;
  }
  get size(): number {
    return this.#open.size;
  }
  get isEmpty(): boolean {
    return this.#changes.length === 0 && this.#questions.length === 0;
  }

  /** `deadlineMs`: Infinity = as long as the shard is here. */
  change<R>(request: ChangeRequest<R>, deadlineMs: number): Promise<R> {
    const { clock, bytesMax } = this.#options;
    const { bytes } = request;
    return new Promise((resolve, reject) => {
      if (this.#closed !== undefined) return reject(new SluiceError(this.#closed, "the shard is not here any more"));
      if (this.#bytes > 0 && this.#bytes + bytes > bytesMax)
        return reject(new SluiceError("OVERLOADED", "too many requests wait for the shard", { throttleMs: THROTTLE_MS }));
      const end = (): void => {
        change.done = true;
        timer.cancel();
        this.#open.delete(change);
        this.#bytes -= bytes;
      };
      const change: Change = {
        request,
        arrivedMs: clock.wallMs(),
        decision: undefined,
        uncertain: false,
        done: false,
        answer: (reply) => (end(), resolve(reply as R)),
        fail: (code, message) => (end(), reject(new SluiceError(code, message))),
      };
      const timer = this.#deadline(deadlineMs, () =>
        change.uncertain
          ? change.fail("OUTCOME_UNKNOWN", "the shard's log did not say in time whether the request is stored")
          : change.fail("COORDINATOR_NOT_AVAILABLE", "the shard's log took nothing in time"),
      );
      this.#bytes += bytes;
      this.#open.add(change);
      this.#changes.push(change);
      this.#awake();
    });
  }

  question<T>(deadlineMs: number, of: (state: ShardState) => T): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#closed !== undefined) return reject(new SluiceError(this.#closed, "the shard is not here any more"));
      if (this.#questions.length >= this.#options.questionsMax)
        return reject(new SluiceError("OVERLOADED", "too many reads wait for the shard", { throttleMs: THROTTLE_MS }));
      const end = (): void => {
        question.done = true;
        timer.cancel();
        this.#open.delete(question);
      };
      const question: Question = {
        done: false,
        answer: (state) => (end(), resolve(of(state))),
        fail: (code, message) => (end(), reject(new SluiceError(code, message))),
      };
      const timer = this.#deadline(deadlineMs, () => question.fail("COORDINATOR_NOT_AVAILABLE", "the shard's log did not answer in time"));
      this.#open.add(question);
      this.#questions.push(question);
      this.#awake();
    });
  }

  /** Resolves when something waits, or the queue is closed. */
  async waiting(): Promise<void> {
    if (!this.isEmpty || this.#closed !== undefined) return;
    await new Promise<void>((resolve) => (this.#wake = resolve));
  }
  /** The oldest change that still wants an answer. */
  nextChange(): Change | undefined {
    while (this.#changes[0]?.done === true) this.#changes.shift();
    return this.#changes.shift();
  }
  takeQuestions(): Question[] {
    const taken = this.#questions.filter((q) => !q.done);
    this.#questions = [];
    return taken;
  }
  /** Back to the front, in their order. */
  putBack(changes: readonly Change[], questions: readonly Question[]): void {
    this.#changes = [...changes.filter((c) => !c.done), ...this.#changes];
    this.#questions = [...questions.filter((q) => !q.done), ...this.#questions];
  }
  /** Ends everything: what may be stored with OUTCOME_UNKNOWN, the rest with `code`. */
  close(code: ErrorCode, message: string): void {
    if (this.#closed !== undefined) return;
    this.#closed = code;
    for (const entry of this.#open) {
      if ("request" in entry && entry.uncertain) {
        entry.fail("OUTCOME_UNKNOWN", `${message}; the request may be stored`);
      } else entry.fail(code, message);
    }
    this.#changes = [];
    this.#questions = [];
    this.#awake();
  }

  #deadline(deadlineMs: number, fn: () => void): Timer {
    return this.#options.clock.setTimer(Math.max(0, deadlineMs - this.#options.clock.monotonicMs()), fn, { unref: true });
  }
  #awake(): void {
    this.#wake?.();
    this.#wake = undefined;
  }
}

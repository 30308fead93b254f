import type { History } from "../checkers/history.ts";
import type { Broker } from "../world/broker.ts";
import type { Rng } from "../world/random.ts";
import type { Scheduler } from "../world/scheduler.ts";

const PAUSE_MS = 15;
const WAIT_MS = 200;

/**
 * Asks brokers for the latest offset: an answer covers everything that anybody had acknowledged when the question was sent, also one by a
 * broker that another has superseded. It draws from a chance of its own.
 */
export class LatestAsker {
  readonly #brokers: readonly Broker[];
  readonly #history: History;
  readonly #scheduler: Scheduler;
  readonly #rng: Rng;

  constructor(rng: Rng, world: { readonly brokers: readonly Broker[]; readonly history: History; readonly scheduler: Scheduler }) {
    this.#rng = rng;
    this.#brokers = world.brokers;
    this.#history = world.history;
    this.#scheduler = world.scheduler;
  }
  start(): void {
    this.#later();
  }
  #later(): void {
    this.#scheduler.after(this.#rng.between(0.2, 1.8) * PAUSE_MS, () => {
      for (const broker of this.#brokers) if (broker.machine.role.kind === "serving" && this.#rng.chance(0.7)) this.#ask(broker);
      this.#later();
    });
  }
  #ask(broker: Broker): void {
    const history = this.#history;
    const known = history.highestAcked;
    const { life } = broker.process;
    // A cut between clients and brokers is no fault of this workload: what it wants is answers of owners that nobody else hears.
    this.#scheduler.after(this.#rng.between(0.2, 1), () =>
      broker.process.deliver(() => {
        if (broker.process.life !== life) return;
        broker.latest(WAIT_MS, ({ code, committed }) => {
          if (code !== undefined) return;
          history.latest++;
          const { role } = broker.machine;
          if (role.kind === "serving" && role.active.frozen) history.latestByRegister++;
          if (committed < known)
            history.violation(`latest: ${broker.name} says ${committed}, ${known} was acknowledged before the question was sent`);
        });
      }),
    );
  }
}

import type { Cluster } from "./cluster.ts";
import type { Rng } from "./random.ts";

/** Fills the disks of all storage nodes, or of all but one or two, for a while. It draws from a chance of its own. */
export class FullDisks {
  readonly #cluster: Cluster;
  readonly #rng: Rng;
  #stopped = false;

  constructor(rng: Rng, cluster: Cluster) {
    this.#rng = rng;
    this.#cluster = cluster;
    this.#later();
  }
  #later(): void {
    this.#after(60, 600, () => {
      const { nodes, trace } = this.#cluster;
      const spared = this.#rng.pick([0, 0, 1, 2]);
      const full = nodes.slice(spared);
      trace(`disks full: all but ${spared}`);
      for (const n of full) n.setDiskFull(true);
      if (this.#rng.chance(0.5)) this.#after(20, 60, () => this.#supersede());
      this.#after(20, 500, () => {
        for (const n of full) n.setDiskFull(false);
        this.#later();
      });
    });
  }
  /** The owner, whose segment is frozen by now, hears clients alone; another takes over, and has room. */
  #supersede(): void {
    const { brokers, nodes, network, assigned, trace } = this.#cluster;
    const owner = brokers.find((b) => b.machine.role.kind === "serving");
    if (owner === undefined) return;
    trace(`${owner.name} hears clients alone`);
    const away = ["metadata", "controller", ...nodes.map((n) => n.name)];
    for (const name of away) {
      network.cut(owner.name, name);
      network.cut(name, owner.name);
    }
    for (const n of nodes) n.setDiskFull(false);
    if (owner === brokers[assigned]) this.#cluster.reassign(true);
    this.#after(100, 400, () => {
      for (const name of away) {
        network.join(owner.name, name);
        network.join(name, owner.name);
      }
    });
  }
  #after(lowMs: number, highMs: number, run: () => void): void {
    this.#cluster.scheduler.after(this.#rng.between(lowMs, highMs), () => {
      if (!this.#stopped) run();
    });
  }

  heal(): void {
    this.#stopped = true;
    for (const n of this.#cluster.nodes) n.setDiskFull(false);
  }
}

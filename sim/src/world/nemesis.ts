import { noMetadataFaults } from "./metadata.ts";
import { noNetworkFaults } from "./network.ts";
import { faultKinds } from "./options.ts";
import type { FaultKind, RunOptions } from "./options.ts";
import type { Cluster } from "./cluster.ts";
import type { StorageNode } from "./storage-node.ts";

/** Brings about the faults of a run, each kind by its own clock, until it is stopped; `heal` undoes all of them. */
export class Nemesis {
  readonly #cluster: Cluster;
  #stopped = false;
  /** At most one disk is lost in a run: more may rightly lose data. */
  #diskLost = false;

  constructor(cluster: Cluster, options: RunOptions) {
    this.#cluster = cluster;
    const { network, metadata } = cluster;
    network.faults = {
      dropChance: options.dropChance,
      duplicateChance: options.duplicateChance,
      lateChance: options.lateChance,
      lateMs: options.lateMs,
    };
    const chance = options.metadataFaultChance;
    metadata.faults = { lostChance: chance / 3, appliedLostChance: chance / 3, lateChance: chance / 3, lateMs: options.metadataLateMs };
    for (const kind of faultKinds) if (options.everyMs[kind] > 0) this.#later(kind, options.everyMs[kind]);
  }
  #later(kind: FaultKind, everyMs: number): void {
    const { scheduler, rng } = this.#cluster;
    scheduler.after(rng.between(0.2, 1.8) * everyMs, () => {
      if (this.#stopped) return;
      this.#do(kind);
      this.#later(kind, everyMs);
    });
  }
  #afterwards(lowMs: number, highMs: number, undo: () => void): void {
    const { scheduler, rng } = this.#cluster;
    scheduler.after(rng.between(lowMs, highMs), undo);
  }

  #do(kind: FaultKind): void {
    const c = this.#cluster;
    const { rng } = c;
    const broker = rng.pick(c.brokers);
    const node = rng.pick(c.nodes);
    c.trace(`fault ${kind} ${broker.name} ${node.name}`);
    switch (kind) {
      case "brokerCrash": {
        if (!broker.process.up) return;
        broker.crash();
        const { life } = broker.process;
        return this.#afterwards(5, 300, () => {
          if (!broker.process.up && broker.process.life === life) broker.start();
        });
      }
      case "brokerPause":
        if (!broker.process.up) return;
        broker.process.pause();
        return this.#afterwards(10, 900, () => broker.process.resume());
      case "nodeCrash":
      case "powerCut":
        return this.#crashNode(node, kind === "powerCut");
      case "powerCutAll":
        for (const n of c.nodes) this.#crashNode(n, true);
        return;
      case "nodePause":
        if (!node.process.up) return;
        node.process.pause();
        return this.#afterwards(5, 300, () => node.process.resume());
      case "cut":
        return this.#cut();
      case "metadataCut":
        c.network.cut(broker.name, "metadata");
        return this.#afterwards(20, 900, () => c.network.join(broker.name, "metadata"));
      case "metadataAway":
        c.metadata.away = true;
        return this.#afterwards(20, 500, () => (c.metadata.away = false));
      case "linkReset":
        broker.process.deliver(() => broker.link(node.name, false));
        return this.#afterwards(1, 50, () => broker.process.deliver(() => broker.link(node.name, true)));
      case "move":
        return c.reassign(false);
      case "force":
        return c.reassign(true);
      case "wipe":
        if (this.#diskLost) return;
        this.#diskLost = true;
        node.wipe();
        return this.#afterwards(2, 150, () => this.#startNode(node));
      case "journalError":
        if (this.#diskLost || !node.process.up) return;
        this.#diskLost = true;
        return node.failJournal();
    }
  }
  #crashNode(node: StorageNode, powerCut: boolean): void {
    if (!node.process.up) return;
    node.crash(powerCut);
    const { life } = node.process;
    if (this.#cluster.rng.chance(0.6)) for (const b of this.#cluster.brokers) b.process.deliver(() => b.link(node.name, false));
    this.#afterwards(2, 250, () => {
      if (node.process.life === life) this.#startNode(node);
    });
  }
  #startNode(node: StorageNode): void {
    if (node.process.up) return;
    node.start();
    for (const b of this.#cluster.brokers) b.process.deliver(() => b.link(node.name, true));
  }
  #cut(): void {
    const c = this.#cluster;
    const { rng } = c;
    const names = [...c.brokers.map((b) => b.name), ...c.nodes.map((n) => n.name), "controller"];
    const one = rng.pick(names);
    const others = names.filter((n) => n !== one && rng.chance(0.6));
    const oneWay = rng.chance(0.4);
    for (const other of others) {
      c.network.cut(one, other);
      if (!oneWay) c.network.cut(other, one);
    }
    this.#afterwards(10, 500, () => {
      for (const other of others) {
        c.network.join(one, other);
        c.network.join(other, one);
      }
    });
  }

  heal(): void {
    this.#stopped = true;
    const c = this.#cluster;
    c.network.faults = noNetworkFaults;
    c.network.joinAll();
    c.metadata.faults = noMetadataFaults;
    c.metadata.away = false;
    for (const n of c.nodes) {
      if (n.failed) n.wipe();
      if (!n.process.up) this.#startNode(n);
      n.process.resume();
    }
    for (const b of c.brokers) {
      if (!b.process.up) b.start();
      b.process.resume();
      for (const n of c.nodes) b.link(n.name, true);
    }
  }
}

import { noMetadataFaults } from "./metadata.ts";
import { noNetworkFaults } from "./network.ts";
import { faultKinds } from "./options.ts";
import type { FaultKind, RunOptions } from "./options.ts";
import type { Broker } from "./broker.ts";
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
    cluster.onLog = (event) => {
      if (event === "tail.end-chosen" && !this.#stopped && cluster.rng.chance(options.fenceRestartChance))
        this.#restartSome(cluster.rng.between(0, 0.3));
    };
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
      case "zombie":
        return this.#zombie();
      case "wipeTakeover":
        return this.#wipeTakeover();
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
  /** The owner hears neither the controller nor the metadata any more, and another broker takes over by force. */
  #isolateOwner(): Broker | undefined {
    const c = this.#cluster;
    const owner = c.brokers.find((b) => b.machine.role.kind === "serving");
    if (owner === undefined) return undefined;
    c.network.cut("controller", owner.name);
    c.network.cut(owner.name, "metadata");
    this.#afterwards(100, 500, () => {
      c.network.join("controller", owner.name);
      c.network.join(owner.name, "metadata");
    });
    return owner;
  }
  /** For a while only `owner` reaches the node. */
  #hide(node: string, owner: Broker): void {
    const c = this.#cluster;
    const others = c.brokers.filter((b) => b !== owner);
    for (const b of others) {
      c.network.cut(b.name, node);
      c.network.cut(node, b.name);
    }
    this.#afterwards(50, 400, () => {
      for (const b of others) {
        c.network.join(b.name, node);
        c.network.join(node, b.name);
      }
    });
  }
  /**
   * Clients and storage nodes still talk to an owner that was superseded; a part of the nodes restarts right after it may have been
   * fenced.
   */
  #zombie(): void {
    const c = this.#cluster;
    const { rng } = c;
    const owner = this.#isolateOwner();
    if (owner === undefined) return;
    if (rng.chance(0.6)) this.#hide(rng.pick(c.nodes).name, owner);
    if (owner === c.brokers[c.assigned]) c.reassign(true);
    if (rng.chance(0.7)) this.#afterwards(5, 60, () => this.#restartSome(3));
  }
  /** Some storage nodes die and are back within `withinMs`. */
  #restartSome(withinMs: number): void {
    const c = this.#cluster;
    for (const n of c.nodes) {
      if (!n.process.up || c.rng.chance(0.3)) continue;
      n.crash(c.rng.chance(0.5));
      const { life } = n.process;
      this.#afterwards(0, withinMs, () => {
        if (n.process.life === life) this.#startNode(n);
      });
    }
  }
  /** One member lags, one comes back wiped, one is out of reach: the new owner must wait for the last, not believe the empty one. */
  #wipeTakeover(): void {
    const c = this.#cluster;
    if (this.#diskLost) return;
    const owner = this.#isolateOwner();
    if (owner?.machine.role.kind !== "serving") return;
    const [wiped, hidden, lagging] = owner.machine.role.active.slots.map((s) => c.nodes.find((n) => n.name === s.replica.node));
    if (wiped === undefined || hidden === undefined || lagging === undefined) return;
    c.network.cut(owner.name, lagging.name);
    this.#afterwards(5, 60, () => {
      c.network.join(owner.name, lagging.name);
      if (this.#diskLost || this.#stopped) return;
      this.#diskLost = true;
      this.#hide(hidden.name, owner);
      wiped.wipe();
      this.#afterwards(0.1, 2, () => this.#startNode(wiped));
      if (owner === c.brokers[c.assigned]) c.reassign(true);
    });
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

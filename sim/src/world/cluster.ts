import { scaleTimers, topicId } from "@sluice/core/model";
import type { Effect } from "@sluice/core/partition";
import { checkCopies } from "../checkers/final.ts";
import { History } from "../checkers/history.ts";
import { Producer } from "../workload/producer.ts";
import { Reader } from "../workload/reader.ts";
import { Broker } from "./broker.ts";
import { Metadata } from "./metadata.ts";
import { Network } from "./network.ts";
import { mutantsOf } from "./options.ts";
import type { RunOptions } from "./options.ts";
import type { Rng } from "./random.ts";
import { Scheduler } from "./scheduler.ts";
import { StorageNode } from "./storage-node.ts";

const NODES = 5;
const BROKERS = 3;
const TIME_SCALE = 0.1;
export const partition = { topicId: topicId("00000000-0000-4000-8000-000000000001"), partition: 0 };

/** One partition, three brokers, five storage nodes, the metadata, clients; and the controller, which assigns by what it believes. */
export class Cluster {
  readonly scheduler = new Scheduler();
  readonly history = new History();
  readonly network: Network;
  readonly metadata: Metadata;
  readonly nodes: StorageNode[] = [];
  readonly brokers: Broker[] = [];
  readonly producers: Producer[] = [];
  readonly readers: Reader[] = [];
  readonly rng: Rng;
  readonly timers = scaleTimers(TIME_SCALE);
  trace: (line: string) => void;
  /** A state change that a broker has logged. */
  onLog: (event: string) => void = () => undefined;
  /** Whom the controller has assigned, and how. */
  assigned = 0;
  #revision = 1;
  #force = false;
  #ids = 0;

  constructor(rng: Rng, options: RunOptions, mutant: string | undefined, trace: (line: string) => void) {
    this.rng = rng;
    this.trace = trace;
    const { scheduler } = this;
    this.network = new Network(scheduler, rng);
    this.metadata = new Metadata(scheduler, rng, this.network, this.timers.metadataCallTimeoutMs);
    this.metadata.onApplied = (txn) => {
      const segments = txn.segments.map((s) => `${s.segment.epoch}-${s.segment.k} ${s.base}..${s.end ?? ""}`).join("; ");
      trace(`applied epoch ${txn.state.epoch} ${txn.state.phase} ${segments}`);
      this.history.transaction(txn, this.metadata.segments);
      for (const record of txn.segments) if (record.phase === "SEALED") checkCopies(this.history, record, this.nodes);
    };
    const mutants = mutantsOf(mutant);
    const nodeOptions = {
      mutants: mutants.replica,
      flushMs: options.flushMs,
      stallChance: options.stallChance,
      stallMs: 150,
      reconcileMs: options.reconcileMs,
    };
    for (let i = 1; i <= NODES; i++)
      this.nodes.push(new StorageNode(`store-${i}`, `zone-${i % options.zones}`, nodeOptions, scheduler, rng, this.metadata));
    const config = { segmentBytes: options.segmentBytes, segmentMs: options.segmentMs, strictThreeCopies: false, producerExpiryMs: 1e9 };
    const world = { scheduler, rng, network: this.network, metadata: this.metadata, nodes: this.nodes, history: this.history };
    const events = {
      onEffect: (broker: Broker, effect: Effect) => this.#onEffect(broker, effect),
      onViolation: (what: string) => this.history.violation(what),
    };
    for (let i = 1; i <= BROKERS; i++)
      this.brokers.push(
        new Broker(`broker-${i}`, { partition, timers: this.timers, config, mutants: mutants.broker }, { ...world, events }),
      );
    for (let i = 1; i <= options.producers; i++)
      this.producers.push(
        new Producer(
          {
            name: `producer-${i}`,
            producerId: i,
            idempotent: i !== 2,
            inFlight: options.inFlight,
            pauseMs: options.pauseMs,
            requestTimeoutMs: rng.int(60, 300),
          },
          { ...world, brokers: this.brokers, nextId: () => ++this.#ids },
        ),
      );
    for (const p of this.producers) p.trace = trace;
    for (let i = 1; i <= 2; i++) this.readers.push(new Reader(`proxy-${i}`, partition, options.viewRefreshMs, world));
    this.#control();
  }

  #onEffect(broker: Broker, e: Effect): void {
    if (e.kind === "log") this.onLog(e.event);
    if (e.kind === "log") this.trace(`${broker.name} ${e.event} ${JSON.stringify(e.fields)}`);
    else if (e.kind === "alarm") this.trace(`${broker.name} ALARM ${e.cause} ${e.message}`);
    else if (e.kind === "stepDown") this.trace(`${broker.name} steps down: ${e.reason}`);
    else if (e.kind === "reply") this.trace(`${broker.name} reply ${e.requestId} ${e.code ?? "stored"} ${e.baseOffset}`);
    else if (e.kind === "markTail") {
      this.history.mark(broker.name, e.mark);
      this.#push(broker, e.mark, []);
    } else if (e.kind === "committed") {
      this.trace(`${broker.name} committed ${e.first}..${e.last}`);
      this.history.mark(broker.name, e.mark);
      for (const b of e.runs) this.history.observeRun(b, `commit of ${broker.name}`);
      // Pushed bytes are copied: the machine may stamp no more, but a link would have copied them as well.
      this.#push(
        broker,
        e.mark,
        e.runs.map((b) => b.slice()),
      );
    } else if (e.kind === "reportSuspect") this.trace(`${broker.name} suspects ${e.node}: ${e.reason}`);
    if (e.kind === "alarm" && e.cause !== "recoveryBlocked" && e.cause !== "notEnoughNodes" && e.cause !== "diskFull")
      this.history.violation(`${broker.name}: ${e.cause}: ${e.message}`);
  }
  #push(broker: Broker, mark: Parameters<Reader["pushed"]>[0], batches: readonly Uint8Array[]): void {
    for (const r of this.readers) this.network.send(broker.name, r.process, () => r.pushed(mark, batches));
  }

  /** The controller: keeps somebody assigned; what it knows may be old, and its messages get lost. */
  #control(): void {
    const current = this.brokers[this.assigned] as Broker;
    const dead = !this.metadata.members.has(current.name) && !this.metadata.away;
    if (dead || (!current.process.up && this.rng.chance(0.3))) this.reassign(this.rng.chance(0.5));
    for (const [i, b] of this.brokers.entries()) {
      if (!b.process.up || this.network.isCut("controller", b.name) || this.rng.chance(0.1)) continue;
      if (i === this.assigned && !b.assigned) {
        const owner = this.metadata.state?.ownerInstance;
        const force = this.#force ? owner : undefined;
        const revision = this.#revision;
        this.scheduler.after(
          this.rng.between(0.5, 4),
          b.process.inThisLife(() => b.assign(revision, force)),
        );
      } else if (i !== this.assigned && b.assigned) {
        const target = (this.brokers[this.assigned] as Broker).id;
        this.scheduler.after(
          this.rng.between(0.5, 4),
          b.process.inThisLife(() => b.unassign(target)),
        );
      }
    }
    this.scheduler.after(this.rng.between(10, 30), () => this.#control());
  }
  reassign(force: boolean): void {
    const others = [...this.brokers.keys()].filter((i) => i !== this.assigned && (this.brokers[i] as Broker).process.up);
    if (others.length === 0) return;
    this.assigned = this.rng.pick(others);
    this.#force = force;
    this.#revision++;
    this.trace(`controller assigns ${(this.brokers[this.assigned] as Broker).name}${force ? " by force" : ""}`);
  }
}

import { memberId, segmentKey } from "@sluice/core/model";
import type { PartitionId, SegmentRecord } from "@sluice/core/model";
import type { TailMark } from "@sluice/core/partition";
import { batchesOf } from "../checkers/history.ts";
import type { History } from "../checkers/history.ts";
import type { Metadata } from "../world/metadata.ts";
import type { Network } from "../world/network.ts";
import { Process } from "../world/process.ts";
import type { Rng } from "../world/random.ts";
import type { Scheduler } from "../world/scheduler.ts";
import type { StorageNode } from "../world/storage-node.ts";

/**
 * A proxy's catch-up reader: reads from storage nodes by a view of the metadata that it refreshes seldom, with the newest mark it was
 * pushed. What a storage
 * node may serve by that mark is the node's rule.
 */
export class Reader {
  readonly process: Process;
  #view: SegmentRecord[] = [];
  #mark: { committed: number; epoch: number } = { committed: -1, epoch: -1 };
  #position = 0;
  readonly #partition: PartitionId;
  readonly #history: History;
  readonly #metadata: Metadata;
  readonly #network: Network;
  readonly #scheduler: Scheduler;
  readonly #rng: Rng;
  readonly #nodes: readonly StorageNode[];
  readonly #refreshMs: number;

  constructor(
    name: string,
    partition: PartitionId,
    refreshMs: number,
    world: { history: History; metadata: Metadata; network: Network; scheduler: Scheduler; rng: Rng; nodes: readonly StorageNode[] },
  ) {
    this.process = new Process(name);
    this.#partition = partition;
    this.#refreshMs = refreshMs;
    this.#history = world.history;
    this.#metadata = world.metadata;
    this.#network = world.network;
    this.#scheduler = world.scheduler;
    this.#rng = world.rng;
    this.#nodes = world.nodes;
    this.#refreshLater();
    this.#readLater();
  }
  /** A tail push: records and marks of an owner (perhaps a zombie). */
  pushed(mark: TailMark, batches: readonly Uint8Array[]): void {
    for (const b of batches) this.#history.observeRun(b, `push of epoch ${mark.epoch} to ${this.process.name}`);
    if (mark.epoch > this.#mark.epoch || (mark.epoch === this.#mark.epoch && mark.committed > this.#mark.committed))
      this.#mark = { committed: mark.committed, epoch: mark.epoch };
  }
  #refreshLater(): void {
    this.#scheduler.after(this.#rng.between(0.3, 1.7) * this.#refreshMs, () => {
      if (!this.#metadata.away) this.#view = [...this.#metadata.segments.values()];
      this.#refreshLater();
    });
  }
  #readLater(): void {
    this.#scheduler.after(this.#rng.between(1, 10), () => {
      this.#read();
      this.#readLater();
    });
  }
  #read(): void {
    if (this.#rng.chance(0.05)) this.#position = 0;
    const from = this.#position;
    // The segment that holds `from` as far as this view goes: an open one holds everything from its base.
    const holders = this.#view.filter((s) => s.base <= from && (s.end === undefined || s.end >= from));
    const segment = holders[this.#rng.int(0, Math.max(0, holders.length - 1))];
    if (segment === undefined) {
      if (this.#rng.chance(0.3)) this.#position = 0;
      return;
    }
    const replica = this.#rng.pick(segment.replicas);
    const node = this.#nodes.find(
      (n) => n.name === replica.node && memberId(n.name) === replica.node && n.incarnation === replica.incarnation,
    );
    if (node === undefined) return;
    const mark = this.#mark;
    const request = {
      partition: this.#partition,
      segment: segment.segment,
      from,
      maxBytes: 400,
      highWatermark: mark.committed,
      highWatermarkEpoch: mark.epoch,
    };
    this.#network.send(this.process.name, node.process, () => {
      const answer = node.read(request);
      if (answer.code !== 0) return;
      this.#network.send(node.name, this.process, () => this.#took(segment, node.name, from, answer.payload));
    });
  }
  #took(segment: SegmentRecord, node: string, from: number, payload: Uint8Array): void {
    const { end } = segment;
    for (const b of batchesOf(payload)) {
      // A sealed segment ends at its recorded end, whatever a copy still has.
      if (end !== undefined && b.last > end) break;
      this.#history.observe(b.id, b.first, `read of ${segmentKey(segment.segment)} on ${node}`);
      this.#history.reads++;
      if (this.#position === from || b.last >= this.#position) this.#position = b.last + 1;
    }
  }
}

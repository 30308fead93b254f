import { nodeCodec } from "@sluice/catalog";
import type { NodePhase } from "@sluice/core/model";
import type { Duty } from "./duty.ts";
import type { Members } from "./members.ts";

/**
 * Phases of storage nodes in the metadata, for those who choose or repair copies. The record is made by the node itself; here only its
 * phase changes, and only when it is another one: a suspect that returns within the same run costs nothing.
 */
export class Nodes {
  readonly #duty: Duty;
  readonly #members: Members;
  readonly #absentSinceMs = new Map<string, number>();

  constructor(duty: Duty, members: Members) {
    this.#duty = duty;
    this.#members = members;
  }

  async run(): Promise<void> {
    const { view, keys, leadership, logger } = this.#duty;
    for (const [id, node] of view.nodes) {
      const phase = this.#phaseOf(id, node.record.phase);
      if (phase === node.record.phase) continue;
      const key = keys.node(node.record.id);
      const done = await leadership.txn({
        compare: [{ key, target: "mod", equals: node.modRevision }],
        then: [{ kind: "put", key, value: nodeCodec.encode({ ...node.record, phase }, node.record) }],
      });
      if (done.succeeded)
        logger.info("storage node", { member: id, incarnation: node.record.incarnation, from: node.record.phase, to: phase });
    }
  }

  #phaseOf(id: string, now: NodePhase): NodePhase {
    const { view, clock, limits } = this.#duty;
    const member = view.member("segment-store", id);
    if (member !== undefined) {
      this.#absentSinceMs.delete(id);
      if (this.#members.draining(member)) return "DRAINING";
      return this.#members.state(member.instance) === "ALIVE" ? "ACTIVE" : "SUSPECT";
    }
    const since = this.#absentSinceMs.get(id) ?? clock.monotonicMs();
    this.#absentSinceMs.set(id, since);
    if (now === "GONE" || clock.monotonicMs() - since >= limits.nodeGoneAfterMs) return "GONE";
    return "SUSPECT";
  }
}

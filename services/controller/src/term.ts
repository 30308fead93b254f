import { codeOf } from "@sluice/core/model";
import { Assignments } from "./assignments.ts";
import { Deletion } from "./deletion.ts";
import { type Duty, viewAt } from "./duty.ts";
import { Garbage } from "./garbage.ts";
import { Members } from "./members.ts";
import { Nodes } from "./nodes.ts";
import { OrphanSweep } from "./orphans.ts";
import { Reconciler } from "./reconciler.ts";
import { RetentionRun } from "./retention-run.ts";
import { Topics } from "./topics.ts";

/**
 * Everything that a leader does, for one term. Begins once the view has caught up with the election, so that the first decision knows
 * all that the leader before has written. Placement runs alone in its own loop: a slow object store never delays a takeover.
 */
export class TermOfOffice {
  readonly duty: Duty;
  readonly members: Members;
  readonly topics: Topics;
  readonly reconciler: Reconciler;
  readonly #assignments: Assignments;
  #begun = false;

  constructor(duty: Duty) {
    this.duty = duty;
    this.members = new Members(duty, () => this.reconciler.request(0));
    this.#assignments = new Assignments(duty, this.members);
    this.reconciler = new Reconciler(duty, () => this.#round());
    this.topics = new Topics(duty, this.#assignments, () => this.reconciler.settled());
    duty.leadership.ended.addEventListener("abort", () => this.#end(), { once: true });
  }
  /** False until the view has caught up: answers would come from the past. */
  get begun(): boolean {
    return this.#begun;
  }

  async begin(): Promise<void> {
    const { view, leadership, timers, limits } = this.duty;
    while (view.revision < leadership.term && !leadership.ended.aborted)
      await viewAt(this.duty, leadership.term, timers.controlCallTimeoutMs);
    if (leadership.ended.aborted) return;
    this.members.start();
    this.reconciler.start();
    this.#begun = true;
    const deletion = new Deletion(this.duty);
    const garbage = new Garbage(this.duty, this.members);
    const nodes = new Nodes(this.duty, this.members);
    const retention = new RetentionRun(this.duty);
    const orphans = new OrphanSweep(this.duty);
    let compactTo = view.revision;
    this.#every("nodes", limits.reconcileMs, () => nodes.run());
    this.#every("deletion", limits.garbageMs, async () => {
      await garbage.run();
      await deletion.run();
    });
    this.#every("retention", limits.retentionMs, () => retention.run());
    this.#every("orphans", limits.orphanSweepMs, () => orphans.run());
    this.#every("compaction", limits.compactMs, async () => {
      // One interval of history stays: a watch that is late by less finds all it has missed.
      const revision = compactTo;
      compactTo = view.revision;
      await this.duty.store.compact(revision);
      this.duty.metrics.compactions.inc();
      this.duty.logger.debug("metadata history compacted", { revision });
    });
  }
  #end(): void {
    this.#begun = false;
    this.members.stop();
    this.reconciler.stop();
  }

  async #round(): Promise<void> {
    this.duty.metrics.topics.set(this.duty.view.topics.size);
    this.duty.metrics.topicsDeleted.set(this.duty.view.deletedTopics.size);
    this.members.publish();
    await this.#assignments.reconcile();
    await this.topics.ensureInternal();
  }
  /** First after one interval, then an interval after each end. */
  #every(name: string, intervalMs: number, work: () => Promise<unknown>): void {
    const { clock, leadership, logger } = this.duty;
    const loop = async (): Promise<void> => {
      while (!leadership.ended.aborted) {
        await clock.sleep(intervalMs, leadership.ended);
        try {
          await work();
        } catch (error) {
          if (!leadership.ended.aborted) logger.warn("duty failed, trying again", { duty: name, code: codeOf(error), err: error });
        }
      }
    };
    loop().catch(() => undefined);
  }
}

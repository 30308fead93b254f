import type { ClusterView } from "@sluice/catalog";
import { shardOwner } from "@sluice/core/group";
import type { Clock, Timer } from "@sluice/runtime";
import type { ServiceIdentity } from "@sluice/service";
import type { PeerWatch } from "./peer-watch.ts";
import type { Shard } from "./shard.ts";

export interface ShardOwnershipOptions {
  readonly view: ClusterView;
  readonly clock: Clock;
  readonly identity: ServiceIdentity;
  readonly shardCount: number;
  readonly open: (shard: number) => Shard;
  /** Pause before a shard that was lost is taken again while it should be here, ms: two coordinators whose views differ do not fight. */
  readonly retakeMs: number;
  /** Which coordinators have died although their keys are still there. */
  readonly peers: Pick<PeerWatch, "isDead" | "onChange">;
}

/**
 * Which shards are here. Each belongs to the coordinator that wins it by rendezvous hashing over those that are alive and not draining;
 * every coordinator takes what it wins. Nobody gives a shard away: the old owner serves until the new one's claim shows, and loses it then.
 */
export class ShardOwnership {
  readonly #options: ShardOwnershipOptions;
  readonly #shards = new Map<number, Shard>();
  readonly #blockedUntilMs = new Map<number, number>();
  #unsubscribe: (() => void) | undefined;
  #timer: Timer | undefined;
  #draining = false;
  #closed = false;

  constructor(options: ShardOwnershipOptions) {
    this.#options = options;
  }
  get shards(): ReadonlyMap<number, Shard> {
    return this.#shards;
  }
  /** Shards that should be here by what the view knows. */
  get wanted(): number {
    let count = 0;
    for (let n = 0; n < this.#options.shardCount; n += 1) if (this.#wins(n)) count += 1;
    return count;
  }

  start(): void {
    const { view } = this.#options;
    this.#unsubscribe = view.onChange((changes) => {
      for (const change of changes) {
        const record = change.kind === "shard" ? view.shards.get(change.shard)?.record : undefined;
        if (record !== undefined && change.kind === "shard") this.#shards.get(change.shard)?.registerChanged(record);
      }
      if (changes.some((c) => c.kind === "shard" || (c.kind === "member" && c.service === "coordinator"))) this.#evaluate();
    });
    this.#options.peers.onChange(() => this.#evaluate());
    this.#evaluate();
  }
  /** Takes nothing more. The others see the member key draining and take what is here. */
  drain(): void {
    this.#draining = true;
  }
  /** Another coordinator is there to take what is here. */
  get hasSuccessor(): boolean {
    const { view, identity } = this.#options;
    return view.membersOf("coordinator").some((m) => !m.draining && m.id !== identity.id);
  }
  stop(): void {
    this.#closed = true;
    this.#unsubscribe?.();
    this.#timer?.cancel();
    for (const shard of this.#shards.values()) shard.stop();
    this.#shards.clear();
  }

  #wins(shard: number): boolean {
    const { view, identity, peers } = this.#options;
    // A view that shows an earlier start under this name is not up to date: that one's shards are taken once the own key shows.
    if (view.member("coordinator", identity.id)?.instance !== identity.instance) return false;
    const alive = view.membersOf("coordinator").filter((m) => !m.draining && !peers.isDead(m.instance));
    return (
      shardOwner(
        alive.map((m) => m.id),
        shard,
      ) === identity.id
    );
  }

  #evaluate(): void {
    if (this.#draining || this.#closed) return;
    const { shardCount, clock } = this.#options;
    const now = clock.monotonicMs();
    let nextMs = Infinity;
    for (let n = 0; n < shardCount; n += 1) {
      if (this.#shards.has(n) || !this.#wins(n)) continue;
      const blockedUntil = this.#blockedUntilMs.get(n) ?? 0;
      if (blockedUntil > now) nextMs = Math.min(nextMs, blockedUntil);
      else this.#open(n);
    }
    this.#timer?.cancel();
    if (nextMs < Infinity) this.#timer = clock.setTimer(nextMs - now, () => this.#evaluate(), { unref: true });
  }
  #open(n: number): void {
    const { open, clock, retakeMs } = this.#options;
    const shard = open(n);
    this.#shards.set(n, shard);
    void shard.ended.then(() => {
      if (this.#shards.get(n) !== shard) return;
      this.#shards.delete(n);
      this.#blockedUntilMs.set(n, clock.monotonicMs() + retakeMs);
      this.#evaluate();
    });
    shard.start();
  }
}

import { codeOf, encodeUtf8, SluiceError, type ClusterRecord, type MemberRecord } from "@sluice/core/model";
import type { KeyValue, Lease, MetadataStore } from "@sluice/metadata";
import type { Clock, Logger, Random } from "@sluice/runtime";
import { isAway } from "./away.ts";
import type { Keys } from "./keys.ts";
import { clusterCodec, memberCodec } from "./values.ts";

/** Reads the cluster record, or makes it (first controller, or standalone). Every service but those waits until it is there. */
export async function ensureCluster(
  store: MetadataStore,
  keys: Keys,
  options: { readonly random: Random; readonly shardCount: number },
): Promise<ClusterRecord> {
  for (;;) {
    const { entry } = await store.get(keys.cluster);
    if (entry !== undefined) return clusterCodec.decode(entry.value);
    const record: ClusterRecord = {
      clusterId: options.random.uuid(),
      generation: 0,
      featureLevel: 1,
      shardCount: options.shardCount,
      shardHash: "murmur2",
    };
    try {
      await store.txn({
        compare: [{ key: keys.cluster, target: "create", equals: 0 }],
        then: [{ kind: "put", key: keys.cluster, value: clusterCodec.encode(record) }],
      });
    } catch (error) {
      if (codeOf(error) !== "UNKNOWN_OUTCOME") throw error;
    }
  }
}

const WAITING_AGAIN_MS = 30_000;

/** Waits for the cluster record. While the metadata answers and has none, says so at once and again after a while. */
export async function awaitCluster(
  store: MetadataStore,
  keys: Keys,
  clock: Clock,
  signal: AbortSignal,
  retryMs: number,
  logger?: Logger,
): Promise<ClusterRecord> {
  let toldMs = Number.NEGATIVE_INFINITY;
  for (;;) {
    signal.throwIfAborted();
    const found = await store.get(keys.cluster).catch((error: unknown) => {
      if (isAway(error)) return undefined;
      throw error;
    });
    if (found?.entry !== undefined) return clusterCodec.decode(found.entry.value);
    if (found !== undefined && clock.monotonicMs() - toldMs >= WAITING_AGAIN_MS) {
      toldMs = clock.monotonicMs();
      logger?.info("waiting for the cluster's first controller", { key: keys.cluster });
    }
    await clock.sleep(retryMs, signal);
  }
}

export interface MembershipOptions {
  readonly store: MetadataStore;
  readonly keys: Keys;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly leaseTtlMs: number;
  readonly retryMs: number;
  /** The lease is renewed only while this returns true. */
  readonly healthy: () => boolean;
  /** All but `numericId`, which is chosen here: the lowest free number of the service. */
  readonly member: Omit<MemberRecord, "numericId">;
}

/**
 * Keeps `members/<service>/<id>` in the metadata under a lease, registering anew (same instance) whenever the lease was lost. A key that
 * belongs to another instance is replaced: the newest start of a name wins, and the older one finds its lease gone.
 */
export class Membership {
  readonly #options: MembershipOptions;
  readonly #stop = new AbortController();
  #lease: Lease | undefined;
  #record: MemberRecord | undefined;
  #running: Promise<void> | undefined;

  constructor(options: MembershipOptions) {
    this.#options = options;
  }
  /** Resolves once registered; retries while the metadata store is away, until `close`. */
  async start(): Promise<void> {
    await this.#registerUntilDone();
    this.#running = this.#follow();
  }
  /** Monotonic ms up to which the membership is known to be alive; 0 when there is none. */
  confirmedUntilMs(): number {
    return this.#lease === undefined || this.#lease.lost.aborted ? 0 : this.#lease.confirmedUntilMs();
  }
  get record(): MemberRecord | undefined {
    return this.#record;
  }
  /** Rewrites the record, for example `draining: true`. */
  async update(change: Partial<Omit<MemberRecord, "numericId">>): Promise<void> {
    const { store, keys } = this.#options;
    if (this.#record === undefined || this.#lease === undefined) return;
    this.#record = { ...this.#record, ...change };
    await store.txn({
      compare: [],
      then: [
        {
          kind: "put",
          key: keys.member(this.#record.service, this.#record.id),
          value: memberCodec.encode(this.#record),
          lease: this.#lease.id,
        },
      ],
    });
  }
  async close(): Promise<void> {
    this.#stop.abort();
    await this.#running;
    await this.#lease?.revoke().catch(() => undefined);
  }

  async #follow(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const lease = this.#lease as Lease;
      await new Promise<void>((resolve) => {
        const done = AbortSignal.any([lease.lost, this.#stop.signal]);
        if (done.aborted) resolve();
        else done.addEventListener("abort", () => resolve(), { once: true });
      });
      if (this.#stop.signal.aborted) return;
      this.#options.logger.warn("member lease lost, registering again", { member: this.#options.member.id });
      await this.#registerUntilDone().catch(() => undefined);
    }
  }

  async #registerUntilDone(): Promise<void> {
    const { clock, logger, retryMs } = this.#options;
    for (;;) {
      this.#stop.signal.throwIfAborted();
      try {
        await this.#register();
        return;
      } catch (error) {
        if (codeOf(error) === "INVALID_ARGUMENT") throw error;
        logger.debug("member registration failed, trying again", { code: codeOf(error) });
        await clock.sleep(retryMs, this.#stop.signal);
      }
    }
  }

  async #register(): Promise<void> {
    const { store, keys, member, leaseTtlMs, healthy, logger } = this.#options;
    const lease = await store.lease(leaseTtlMs);
    try {
      lease.setHealthCheck(healthy);
      const key = keys.member(member.service, member.id);
      const { entries } = await store.list(`${keys.members}${member.service}/`);
      const numbers = (await store.list(`${keys.numbers}${member.service}/`)).entries;
      const earlier = entries.find((e) => e.key === key);
      const numericId = freeNumber(
        member.id,
        entries.filter((e) => e !== earlier),
        numbers,
      );
      const record: MemberRecord = { ...member, numericId };
      // A number is a key too: two that register at once may both find it free, and one of them is told that it no longer is.
      const numberKey = keys.memberNumber(member.service, numericId);
      const done = await store.txn({
        compare: [
          { key, target: "mod", equals: earlier?.modRevision ?? 0 },
          { key: numberKey, target: "mod", equals: numbers.find((e) => e.key === numberKey)?.modRevision ?? 0 },
        ],
        then: [
          { kind: "put", key, value: memberCodec.encode(record), lease: lease.id },
          { kind: "put", key: numberKey, value: encodeUtf8(member.id), lease: lease.id },
        ],
      });
      if (!done.succeeded) throw new SluiceError("COMPARE_FAILED", "another member registered at the same time");
      this.#lease = lease;
      this.#record = record;
      logger.info("member registered", { service: member.service, member: member.id, instance: member.instance, numericId });
    } catch (error) {
      await lease.revoke().catch(() => undefined);
      throw error;
    }
  }
}

/** The lowest number that no other member has, by its key or by its record. */
function freeNumber(id: string, others: readonly KeyValue[], numbers: readonly KeyValue[]): number {
  const own = encodeUtf8(id);
  const used = new Set(others.map(({ value }) => memberCodec.decode(value).numericId));
  for (const { key, value } of numbers) if (value.join() !== own.join()) used.add(Number(key.slice(key.lastIndexOf("/") + 1)));
  let n = 1;
  while (used.has(n)) n += 1;
  return n;
}

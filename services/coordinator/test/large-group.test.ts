import { describe, expect, jest, test } from "@jest/globals";
import { systemClock } from "@sluice/runtime";
import { errorCodeOf } from "@sluice/core/model";
import { ORDERS, SHARDS, TestCluster, type Running } from "./support/cluster.ts";
import { until } from "./support/world.ts";

// A busy machine takes its time: what a group of this size may take is measured elsewhere, on real processes.
jest.setTimeout(60_000);
const call = { timeoutMs: 40_000 };
const MEMBERS = 100;
const PARTITIONS = 300;
const SESSION_MS = 3_000;
const HEARTBEAT_MS = 300;

/** A classic consumer at the level of its requests: joins again when it is told to, the leader assigns. */
class Client {
  readonly #running: Running;
  readonly #stop = new AbortController();
  memberId = "";
  generation = -1;
  partitions: number[] = [];
  stable = false;
  commits = 0;
  readonly refused: string[] = [];

  constructor(running: Running) {
    this.#running = running;
  }
  /** Without a word. */
  die(): void {
    this.#stop.abort();
  }
  async run(): Promise<void> {
    try {
      await this.#work();
    } catch (error) {
      // Whoever is dead does not mind that its cluster has gone.
      if (!this.#stop.signal.aborted) throw error;
    }
  }
  async #work(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      await this.#join();
      while (this.stable && !this.#stop.signal.aborted && (await this.#heartbeat())) await systemClock.sleep(HEARTBEAT_MS);
      this.stable = false;
    }
  }
  async #join(): Promise<void> {
    const { client } = this.#running;
    const protocols = [{ name: "range", metadata: new Uint8Array(50) }];
    const timeouts = { sessionTimeoutMs: SESSION_MS, rebalanceTimeoutMs: 20_000 };
    const joined = await client.joinGroup(
      { group: "g", memberId: this.memberId, protocolType: "consumer", protocols, ...timeouts, requireKnownMemberId: true },
      call,
    );
    const code = joined.error === 0 ? undefined : errorCodeOf(joined.error);
    this.memberId = code === "UNKNOWN_MEMBER" ? "" : joined.memberId;
    if (code !== undefined) return;
    this.generation = joined.generation;
    const assignments = joined.members.map((m, i) => {
      const own = Array.from({ length: PARTITIONS }, (_, p) => p).filter((p) => p % joined.members.length === i);
      return { memberId: m.memberId, assignment: new TextEncoder().encode(own.join()) };
    });
    const synced = await client.syncGroup({ group: "g", memberId: this.memberId, generation: this.generation, assignments }, call);
    if (synced.error !== 0) return;
    this.partitions = new TextDecoder().decode(synced.assignment).split(",").map(Number);
    this.stable = true;
  }
  /** Commits on the way, as a consumer that works does; false = join again. */
  async #heartbeat(): Promise<boolean> {
    const { client } = this.#running;
    const who = { group: "g", memberId: this.memberId };
    const { error } = await client.heartbeat({ ...who, generation: this.generation }, call);
    const offsets = [{ topic: "orders", partition: 0, offset: 1n }];
    const { results } = await client.commit({ ...who, memberEpoch: this.generation, offsets }, call);
    const code = results[0]?.error ?? 0;
    if (code === 0) this.commits++;
    else this.refused.push(errorCodeOf(code));
    return error === 0;
  }
}

describe("a classic group of a hundred members over three hundred partitions", () => {
  test("settles, and again after ten fell silent at once; commits meanwhile are kept", async () => {
    await using cluster = new TestCluster();
    await cluster.start();
    cluster.highWatermarks.set(`${ORDERS}/0`, 100);
    const running = await cluster.coordinator("coordinator-1", { groups: { sessionTimeoutMinMs: 100, initialRebalanceDelayMs: 200 } });
    await until("all shards are served", () =>
      cluster.serves(
        running,
        Array.from({ length: SHARDS }, (_, n) => n),
      ),
    );
    const all = Array.from({ length: MEMBERS }, () => new Client(running));
    const runs = all.map((c) => c.run());
    await using _ = { [Symbol.asyncDispose]: async () => void (all.forEach((c) => c.die()), await Promise.allSettled(runs)) };
    const settled = (of: readonly Client[]): boolean => {
      const given = of.flatMap((c) => (c.stable ? c.partitions : []));
      return new Set(of.map((c) => c.generation)).size === 1 && given.length === PARTITIONS && new Set(given).size === PARTITIONS;
    };
    await until("the group settles", () => settled(all));
    const rest = all.slice(10);
    for (const c of all.slice(0, 10)) c.die();
    const before = rest.map((c) => c.commits);
    await until("the rest settles", () => settled(rest));
    expect(new Set(rest.flatMap((c) => c.partitions)).size).toBe(PARTITIONS);
    await until("all commit again", () => rest.every((c, i) => c.commits > (before[i] as number)));
    // While the group prepares, members finish what they have: refused is only who is a generation late, or has to wait for the leader.
    const refused = new Set(rest.flatMap((c) => c.refused));
    for (const code of refused) expect(["ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS"]).toContain(code);
    for (const c of rest) c.die();
    await Promise.all(runs);
  });
});

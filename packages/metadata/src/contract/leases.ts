import { describe, expect } from "@jest/globals";
import { apply, eventually, put, WatchLog, type CaseContext, type RunCase } from "./helpers.ts";

const TTL_MS = 1_000;

const keysOf = async ({ store, prefix }: CaseContext): Promise<string[]> =>
  (await store.list(prefix)).entries.map((entry) => entry.key.slice(prefix.length));

export function leaseCases(run: RunCase): void {
  describe("leases", () => {
    run("keys live while the lease is renewed, and it is confirmed all the while", async (context) => {
      const { server, store, prefix } = context;
      const before = server.clock.monotonicMs();
      const lease = await store.lease(TTL_MS);
      expect(lease.id).toMatch(/^[1-9][0-9]*$/);
      expect(lease.ttlMs).toBeGreaterThanOrEqual(TTL_MS);
      expect(lease.confirmedUntilMs()).toBeGreaterThan(before);
      expect(lease.confirmedUntilMs()).toBeLessThan(server.clock.monotonicMs() + lease.ttlMs);
      await apply(store, put(`${prefix}k`, "", lease.id));
      expect((await store.get(`${prefix}k`)).entry?.lease).toBe(lease.id);
      for (let passedMs = 0; passedMs < 3 * lease.ttlMs; passedMs += 50) {
        await server.passTime(50);
        expect(lease.confirmedUntilMs()).toBeGreaterThan(server.clock.monotonicMs());
      }
      expect(await keysOf(context)).toEqual(["k"]);
      expect(lease.lost.aborted).toBe(false);
      await lease.revoke();
    });

    run("revoking deletes the keys in one revision, and is no loss", async (context) => {
      const { server, store, prefix } = context;
      const lease = await store.lease(TTL_MS);
      const { revision } = await apply(store, put(`${prefix}b`, "", lease.id), put(`${prefix}a`, "", lease.id), put(`${prefix}free`));
      const log = new WatchLog(server, store, prefix, revision + 1);
      await lease.revoke();
      await lease.revoke();
      await log.until(2);
      expect(log.events).toEqual(["a", "b"].map((key) => ({ type: "delete", key: prefix + key, modRevision: revision + 1 })));
      expect(await keysOf(context)).toEqual(["free"]);
      expect(lease.lost.aborted).toBe(false);
      await log.stop();
    });

    run("a put without the lease, or with another, takes the key from it", async (context) => {
      const { store, prefix } = context;
      const [first, second] = [await store.lease(TTL_MS), await store.lease(TTL_MS)];
      await apply(store, ...["a", "b", "c"].map((key) => put(prefix + key, "", first.id)));
      await apply(store, put(`${prefix}a`), put(`${prefix}b`, "", second.id));
      await first.revoke();
      expect(await keysOf(context)).toEqual(["a", "b"]);
      await second.revoke();
      expect(await keysOf(context)).toEqual(["a"]);
    });

    run("it can end early: the holder is told and the keys are gone", async (context) => {
      const { server, store, prefix } = context;
      const lease = await store.lease(TTL_MS);
      await apply(store, put(`${prefix}k`, "", lease.id));
      await server.endLease(lease.id);
      await eventually(server, "the loss is told", () => lease.lost.aborted, 2 * lease.ttlMs);
      expect(lease.lost.reason).toMatchObject({ code: "LEASE_LOST" });
      expect(await keysOf(context)).toEqual([]);
      await lease.revoke();
    });

    run("a holder that is not healthy stops renewing; the lease ends, and it learns so", async (context) => {
      const { server, store, prefix } = context;
      const lease = await store.lease(TTL_MS);
      let healthy = false;
      lease.setHealthCheck(() => {
        if (!healthy) throw new Error("not well");
        return true;
      });
      await apply(store, put(`${prefix}k`, "", lease.id));
      // etcd looks for ended leases twice a second, and lets them live a little longer than asked.
      await eventually(server, "the key goes", async () => (await keysOf(context)).length === 0, 4 * lease.ttlMs);
      expect(lease.confirmedUntilMs()).toBeLessThan(server.clock.monotonicMs());
      healthy = true;
      await eventually(server, "the loss is told", () => lease.lost.aborted, 2 * lease.ttlMs);
    });

    run("health is asked again each time: a moment of weakness costs nothing", async (context) => {
      const { server, store, prefix } = context;
      const lease = await store.lease(2 * TTL_MS);
      let asked = 0;
      lease.setHealthCheck(() => ++asked % 2 === 0);
      await apply(store, put(`${prefix}k`, "", lease.id));
      await eventually(server, "six questions", () => asked >= 6);
      expect(await keysOf(context)).toEqual(["k"]);
      expect(lease.lost.aborted).toBe(false);
      await lease.revoke();
    });
  });
}

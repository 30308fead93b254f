import { createServer, type Server, type Socket } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { silentLogger, systemClock, systemRandom } from "@sluice/runtime";
import { freePort, startEtcd, startTcpProxy, type EtcdServer } from "@sluice/test-support";
import { openEtcdMetadata, type MetadataStore, type Op } from "../src/index.ts";

const put = (key: string, value = new Uint8Array(1), lease = "0"): Op => ({ kind: "put", key, value, lease });
const apply = (store: MetadataStore, ...ops: Op[]) => store.txn({ compare: [], then: ops });

describe("etcd adapter: members", () => {
  let etcd: EtcdServer;
  let silent: Server;
  const sockets = new Set<Socket>();
  beforeAll(async () => {
    etcd = await startEtcd();
    // A member that accepts connections and never says a word.
    silent = createServer((socket) => {
      sockets.add(socket);
      socket.on("error", () => undefined);
    });
    const port = await freePort();
    await new Promise<void>((resolve) => silent.listen(port, "127.0.0.1", resolve));
  }, 60_000);
  afterAll(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => silent.close(resolve));
    await etcd[Symbol.asyncDispose]();
  });

  const open = (endpoints: string[], first: number, prefix = ""): MetadataStore =>
    openEtcdMetadata({ endpoints, prefix, clock: systemClock, random: { ...systemRandom, int: () => first }, logger: silentLogger });
  const silentUrl = (): string => `http://127.0.0.1:${(silent.address() as { port: number }).port}`;

  test("one that refuses and one that is silent are passed over, by reads, writes, leases and watches", async () => {
    const endpoints = [`http://127.0.0.1:${await freePort()}`, silentUrl(), etcd.clientUrl];
    for (const first of [0, 1, 2]) {
      const store = open(endpoints, first);
      const { revision } = await apply(store, put(`members/${first}`));
      expect((await store.get(`members/${first}`)).entry).toBeDefined();
      const lease = await store.lease(5_000);
      await lease.revoke();
      for await (const batch of store.watch(`members/${first}`, revision, new AbortController().signal)) if (batch.events.length > 0) break;
      await store.close();
    }
  });

  test("when the one in use goes away, watch and lease go on over another", async () => {
    await using gone = await startTcpProxy(etcd.port);
    const store = open([`http://127.0.0.1:${gone.port}`, etcd.clientUrl], 0);
    const { revision } = await apply(store, put("failover/k"));
    const lease = await store.lease(1_000);
    await apply(store, put("failover/leased", new Uint8Array(1), lease.id));
    const watch = store.watch("failover/k", revision, new AbortController().signal)[Symbol.asyncIterator]();
    expect((await watch.next()).value).toMatchObject({ revision });
    await gone[Symbol.asyncDispose]();
    // A read is asked again where the answer was lost; a write would rightly say that its outcome is unknown.
    await store.get("failover/k");
    const later = await apply(store, put("failover/k"));
    expect((await watch.next()).value).toMatchObject({ revision: later.revision, events: [{ entry: { version: 2 } }] });
    await systemClock.sleep(2 * lease.ttlMs);
    expect(lease.confirmedUntilMs()).toBeGreaterThan(systemClock.monotonicMs());
    expect((await store.get("failover/leased")).entry).toBeDefined();
    await lease.revoke();
    await watch.return?.(undefined);
    await store.close();
  });

  test("a prefix keeps clusters on one etcd apart", async () => {
    const [a, b, all] = [open([etcd.clientUrl], 0, "/a/"), open([etcd.clientUrl], 0, "/b/"), open([etcd.clientUrl], 0)];
    await apply(a, put("k"), put("ü"));
    await apply(b, put("k"));
    expect((await a.list("")).entries.map((entry) => entry.key)).toEqual(["k", "ü"]);
    expect((await all.list("/")).entries.map((entry) => entry.key)).toEqual(["/a/k", "/a/ü", "/b/k"]);
    await apply(a, { kind: "deletePrefix", prefix: "k" });
    expect((await b.get("k")).entry).toBeDefined();
    for (const store of [a, b, all]) await store.close();
  });

  test("a listing larger than one answer may be comes in smaller pages", async () => {
    const store = open([etcd.clientUrl], 0);
    const value = new Uint8Array(1_000_000).fill(1);
    const keys = Array.from({ length: 40 }, (_, i) => `large/${String(i).padStart(2, "0")}`);
    for (const key of keys) await apply(store, put(key, value));
    const { entries } = await store.list("large/", { timeoutMs: 20_000 });
    expect(entries.map((entry) => entry.key)).toEqual(keys);
    expect(entries.every((entry) => entry.value.length === value.length)).toBe(true);
    await store.close();
  }, 30_000);
});

import { describe, expect, test } from "@jest/globals";
import { instanceId, memberId, type MemberRecord } from "@sluice/core/model";
import { openEmbeddedMetadata, type MetadataStore } from "@sluice/metadata";
import { silentLogger, systemClock } from "@sluice/runtime";
import { createKeys, Membership, memberCodec } from "../src/index.ts";

const keys = createKeys();
const member = (id: string, instance = `${id}-1`): Omit<MemberRecord, "numericId"> => ({
  service: "proxy",
  id: memberId(id),
  instance: instanceId(instance),
  zone: "",
  endpoints: {},
  version: "1",
  draining: false,
});
const registering = (store: MetadataStore, id: string, instance?: string): Membership =>
  new Membership({
    store,
    keys,
    clock: systemClock,
    logger: silentLogger,
    leaseTtlMs: 10_000,
    retryMs: 5,
    healthy: () => true,
    member: member(id, instance),
  });
/** The store, whose first `count` transactions start only when all of them have been asked for. */
function together(store: MetadataStore, count: number): MetadataStore {
  let waiting = 0;
  const { promise, resolve } = Promise.withResolvers<void>();
  return new Proxy(store, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      return async (...args: unknown[]): Promise<unknown> => {
        if (name === "txn" && (waiting += 1) <= count) {
          if (waiting === count) resolve();
          await promise;
        }
        return Reflect.apply(value, target, args) as unknown;
      };
    },
  });
}

describe("numbers of members", () => {
  test("two that register at the same moment get different ones", async () => {
    const embedded = openEmbeddedMetadata({ path: ":memory:", clock: systemClock });
    const store = together(embedded, 3);
    const members = ["proxy-1", "proxy-2", "proxy-3"].map((id) => registering(store, id));
    await Promise.all(members.map((one) => one.start()));
    expect(new Set(members.map(({ record }) => record?.numericId))).toEqual(new Set([1, 2, 3]));
    const { entries } = await embedded.list(keys.members);
    expect(new Set(entries.map(({ value }) => memberCodec.decode(value).numericId))).toEqual(new Set([1, 2, 3]));
    await Promise.all(members.map((one) => one.close()));
    await embedded.close();
  });

  test("one that starts anew keeps its own while its earlier lease still lives; one that left leaves it free", async () => {
    const store = openEmbeddedMetadata({ path: ":memory:", clock: systemClock });
    const [first, second] = [registering(store, "proxy-1"), registering(store, "proxy-2")];
    await first.start();
    await second.start();
    const again = registering(store, "proxy-1", "proxy-1-2");
    await again.start();
    expect(again.record?.numericId).toBe(1);
    // The end of the earlier one takes nothing from the newer.
    await first.close();
    const third = registering(store, "proxy-3");
    await third.start();
    expect(third.record?.numericId).toBe(3);
    await second.close();
    const fourth = registering(store, "proxy-4");
    await fourth.start();
    expect(fourth.record?.numericId).toBe(2);
    await Promise.all([again, third, fourth].map((one) => one.close()));
    await store.close();
  });
});

import { describe, expect, test } from "@jest/globals";
import { codeOf, SluiceError } from "@sluice/core/model";
import { systemClock, systemRandom } from "@sluice/runtime";
import {
  type CallReport,
  checkClusterMarker,
  CLUSTER_MARKER_KEY,
  type FaultRule,
  faultyObjectStore,
  memoryObjectStore,
  meteredObjectStore,
  type ObjectStore,
} from "../src/index.ts";
import { ensuredObjectStore } from "../src/ensured.ts";

const codeFrom = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "ok",
    (error: unknown) => codeOf(error),
  );
async function keys(store: ObjectStore, prefix = ""): Promise<string[]> {
  const out: string[] = [];
  for await (const { key } of store.list(prefix)) out.push(key);
  return out;
}
async function* body(...pieces: Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* pieces;
}
const eight = Uint8Array.from([1, 2, 3, 4, 5, 6, 7, 8]);

describe("ensured object store", () => {
  test("no call goes before the first success; a failure is told and tried again by the next call", async () => {
    const inner = memoryObjectStore({ clock: systemClock });
    let tries = 0;
    const store = ensuredObjectStore(inner, async () => {
      tries += 1;
      if (tries < 3) throw new SluiceError("OBJECT_STORE_UNAVAILABLE", "not there yet");
    });
    expect(await codeFrom(store.put("k", [eight]))).toBe("OBJECT_STORE_UNAVAILABLE");
    expect(await codeFrom(keys(store))).toBe("OBJECT_STORE_UNAVAILABLE");
    expect(await keys(inner)).toEqual([]);
    await Promise.all([store.put("a", [eight]), store.putMultipart("b", body(eight)), store.head("a")]);
    expect(await keys(store)).toEqual(["a", "b"]);
    expect(await store.getRange("a", 0, 1)).toEqual(eight.subarray(0, 1));
    await store.delete("a");
    expect(await keys(inner)).toEqual(["b"]);
    expect(tries).toBe(3);
  });
});

describe("faulty object store", () => {
  const make = (...rules: FaultRule[]) => {
    const inner = memoryObjectStore({ clock: systemClock });
    return { inner, store: faultyObjectStore(inner, { clock: systemClock, random: systemRandom, rules }) };
  };

  test("an error before: nothing was done; timesMax ends the rule", async () => {
    const { inner, store } = make({ fault: "error-before", probability: 1, calls: ["put"], timesMax: 1 });
    expect(await codeFrom(store.put("k", [eight]))).toBe("OBJECT_STORE_UNAVAILABLE");
    expect(await keys(inner)).toEqual([]);
    await store.put("k", [eight]);
    expect(store.counts["error-before"]).toBe(1);
  });

  test("an error after: it was done all the same", async () => {
    const { inner, store } = make({ fault: "error-after", probability: 1 });
    expect(await codeFrom(store.put("k", [eight]))).toBe("OBJECT_STORE_UNAVAILABLE");
    expect(await codeFrom(store.putMultipart("m", body(eight)))).toBe("OBJECT_STORE_UNAVAILABLE");
    expect(await keys(inner)).toEqual(["k", "m"]);
    expect(await codeFrom(keys(store))).toBe("OBJECT_STORE_UNAVAILABLE");
    expect(await codeFrom(store.delete("k"))).toBe("OBJECT_STORE_UNAVAILABLE");
    expect(await keys(inner)).toEqual(["m"]);
  });

  test("half stored: success is told, head tells the truth", async () => {
    const { inner, store } = make({ fault: "half-stored", probability: 1, keyPrefix: "bad/" });
    await store.put("bad/k", [eight.subarray(0, 3), eight.subarray(3)]);
    expect(await store.putMultipart("bad/m", body(eight, eight))).toEqual({ sizeBytes: 16 });
    await store.put("good", [eight]);
    expect((await inner.head("bad/k"))?.sizeBytes).toBe(4);
    expect(await inner.getRange("bad/k", 0, 4)).toEqual(eight.subarray(0, 4));
    expect((await inner.head("bad/m"))?.sizeBytes).toBe(8);
    expect((await inner.head("good"))?.sizeBytes).toBe(8);
    expect(store.counts["half-stored"]).toBe(2);
  });

  test("a short range", async () => {
    const { store } = make({ fault: "short-range", probability: 1 });
    await store.put("k", [eight]);
    expect(await store.getRange("k", 2, 4)).toEqual(Uint8Array.from([3, 4]));
  });

  test("slow: by the clock, up to the caller's deadline", async () => {
    const { store } = make({ fault: "slow", probability: 1, delayMs: 30 });
    const startMs = systemClock.monotonicMs();
    await store.put("k", [eight]);
    expect(systemClock.monotonicMs() - startMs).toBeGreaterThanOrEqual(29);
    expect(await codeFrom(store.put("k", [eight], { timeoutMs: 5 }))).toBe("OBJECT_STORE_UNAVAILABLE");
    expect(await codeFrom(store.head("k", { signal: AbortSignal.timeout(5) }))).toBe("CANCELLED");
  });

  test("a list leaves out new keys, and only those", async () => {
    const { inner, store } = make({ fault: "list-omits-new", probability: 1, newForMs: 40 });
    await inner.put("old", [eight]);
    await store.put("new", [eight]);
    expect(await keys(store)).toEqual(["old"]);
    expect((await store.head("new"))?.sizeBytes).toBe(8);
    await systemClock.sleep(45);
    expect(await keys(store)).toEqual(["new", "old"]);
  });

  test("rules can change; a chance outside 0 to 1 is refused", async () => {
    const { store } = make({ fault: "error-before", probability: 1 });
    store.setRules([]);
    expect(await codeFrom(store.put("k", [eight]))).toBe("ok");
    expect(() => store.setRules([{ fault: "slow", probability: 2 }])).toThrow(/probability of slow/);
  });

  test("the same random numbers give the same faults", async () => {
    const run = async (): Promise<string> => {
      let x = 7;
      const random = { ...systemRandom, float: () => (x = (x * 16_807) % 2_147_483_647) / 2_147_483_647 };
      const inner = memoryObjectStore({ clock: systemClock });
      const rules: FaultRule[] = [
        { fault: "error-before", probability: 0.4 },
        { fault: "half-stored", probability: 0.3 },
      ];
      const store = faultyObjectStore(inner, { clock: systemClock, random, rules });
      let out = "";
      for (let i = 0; i < 60; i++) out += `${await codeFrom(store.put(`k${i}`, [eight]))} ${(await inner.head(`k${i}`))?.sizeBytes}\n`;
      return out;
    };
    const first = await run();
    expect(await run()).toBe(first);
    for (const part of ["ok 8", "ok 4", "OBJECT_STORE_UNAVAILABLE undefined"]) expect(first).toContain(part);
  });
});

describe("metered object store", () => {
  test("reports every call once, with bytes, outcome and latency", async () => {
    const reports: CallReport[] = [];
    const store = meteredObjectStore(memoryObjectStore({ clock: systemClock }), systemClock, (report) => reports.push(report));
    await store.put("k", [eight, eight]);
    await store.putMultipart("m", body(eight));
    await store.getRange("k", 1, 5);
    await codeFrom(store.getRange("gone", 0, 1));
    await store.head("k");
    await store.delete("k");
    await keys(store);
    await codeFrom(keys(store, "/bad"));
    for await (const info of store.list("")) if (info.key === "m") break;
    expect(reports.map(({ call, outcome, bytes }) => `${call} ${outcome} ${bytes}`)).toEqual([
      "put ok 16",
      "putMultipart ok 8",
      "getRange ok 5",
      "getRange OBJECT_NOT_FOUND 0",
      "head ok 0",
      "delete ok 0",
      "list ok 0",
      "list INVALID_ARGUMENT 0",
      "list ok 0",
    ]);
    expect(reports.every(({ latencyMs }) => latencyMs >= 0 && latencyMs < 1_000)).toBe(true);
  });
});

describe("cluster marker", () => {
  test("written once, then it must match, and a mismatch names both", async () => {
    const store = memoryObjectStore({ clock: systemClock });
    expect(await checkClusterMarker(store, "cluster-a", 1)).toBe("written");
    expect(await checkClusterMarker(store, "cluster-a", 1)).toBe("matched");
    for (const [id, generation] of [
      ["cluster-b", 1],
      ["cluster-a", 2],
    ] as const) {
      const refused = checkClusterMarker(store, id, generation);
      await expect(refused).rejects.toMatchObject({ code: "CLUSTER_MISMATCH" });
      await expect(refused).rejects.toThrow(
        `cluster ${id} generation ${generation}, but the object store's cluster.json names cluster cluster-a generation 1`,
      );
    }
    expect(await checkClusterMarker(store, "cluster-a", 1)).toBe("matched");
  });

  test("something else under its key is refused, whatever its size, and is not overwritten", async () => {
    const store = memoryObjectStore({ clock: systemClock });
    for (const text of ["", "{}", "null", "[", '{"format":2,"clusterId":"a","generation":1}', "x".repeat(100_000)]) {
      await store.put(CLUSTER_MARKER_KEY, [new TextEncoder().encode(text)]);
      expect(await codeFrom(checkClusterMarker(store, "a", 1))).toBe("CLUSTER_MISMATCH");
      expect((await store.head(CLUSTER_MARKER_KEY))?.sizeBytes).toBe(text.length);
    }
  });

  test("of two clusters that start on one bucket, one is refused at its next check", async () => {
    const store = memoryObjectStore({ clock: systemClock });
    await Promise.all(["a", "b"].map((id) => codeFrom(checkClusterMarker(store, id, 1))));
    const again = await Promise.all(["a", "b"].map((id) => codeFrom(checkClusterMarker(store, id, 1))));
    expect(again.toSorted()).toEqual(["CLUSTER_MISMATCH", "ok"]);
  });

  test("a store that does not answer is no mismatch", async () => {
    const rules: FaultRule[] = [{ fault: "error-before", probability: 1 }];
    const store = faultyObjectStore(memoryObjectStore({ clock: systemClock }), { clock: systemClock, random: systemRandom, rules });
    expect(await codeFrom(checkClusterMarker(store, "a", 1))).toBe("OBJECT_STORE_UNAVAILABLE");
  });
});

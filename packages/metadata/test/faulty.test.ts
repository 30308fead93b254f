import { describe, expect, test } from "@jest/globals";
import { codeOf } from "@sluice/core/model";
import { systemClock } from "@sluice/runtime";
import { SeededRandom } from "@sluice/runtime/testing";
import { describeMetadataStoreContract } from "../src/contract/index.ts";
import {
  faultyMetadata,
  openEmbeddedMetadata,
  type FaultyMetadata,
  type MetadataFaults,
  type MetadataStore,
  type Txn,
} from "../src/index.ts";
import { embeddedSubject } from "./embedded-subject.ts";

// Slow, but true: everything of the contract that holds without faults holds.
describeMetadataStoreContract(
  embeddedSubject(
    "embedded, with delays",
    (store) => faultyMetadata(store, { random: new SeededRandom(7), clock: systemClock, delayMsMax: 0.2 }),
    () => systemClock.sleep(1),
  ),
  { faults: false },
);

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const text = (value: Uint8Array | undefined): string => new TextDecoder().decode(value);

async function withFaulty(
  faults: Partial<MetadataFaults>,
  body: (store: FaultyMetadata, inner: MetadataStore) => Promise<void>,
): Promise<void> {
  const inner = openEmbeddedMetadata({ path: ":memory:", clock: systemClock });
  const store = faultyMetadata(inner, { random: new SeededRandom(1), clock: systemClock, ...faults });
  await body(store, inner);
  await store.close();
}
const create = (value: string): Txn => ({
  compare: [{ key: "k", target: "create", equals: 0 }],
  then: [{ kind: "put", key: "k", value: bytes(value) }],
  else: [{ kind: "get", key: "k" }],
});
const codeOfTxn = (store: MetadataStore, txn: Txn): Promise<string> => store.txn(txn).then(() => "none", codeOf);

describe("injected faults", () => {
  test("unavailable: not applied", () =>
    withFaulty({ unavailable: 1 }, async (store, inner) => {
      expect(await codeOfTxn(store, create("1"))).toBe("METADATA_UNAVAILABLE");
      await expect(store.get("k")).rejects.toMatchObject({ code: "METADATA_UNAVAILABLE" });
      expect((await inner.get("k")).entry).toBeUndefined();
      store.calm();
      expect(await codeOfTxn(store, create("1"))).toBe("none");
      expect(store.injected).toEqual({ unavailable: 2, unknownApplied: 0, unknownNotApplied: 0, unknownLate: 0 });
    }));

  test("unknown: applied, not applied, applied later", async () => {
    await withFaulty({ unknownApplied: 1 }, async (store, inner) => {
      expect(await codeOfTxn(store, create("1"))).toBe("UNKNOWN_OUTCOME");
      expect((await inner.get("k")).entry?.version).toBe(1);
      // Reads have no unknown outcome.
      expect(await codeOfTxn(store, { compare: [], then: [{ kind: "get", key: "k" }] })).toBe("none");
    });
    await withFaulty({ unknownNotApplied: 1 }, async (store, inner) => {
      expect(await codeOfTxn(store, create("1"))).toBe("UNKNOWN_OUTCOME");
      expect((await inner.get("k")).entry).toBeUndefined();
    });
    await withFaulty({ unknownLate: 1, lateMsMax: 20 }, async (store, inner) => {
      expect(await codeOfTxn(store, create("1"))).toBe("UNKNOWN_OUTCOME");
      expect((await inner.get("k")).entry).toBeUndefined();
      for await (const batch of inner.watch("k", 1, new AbortController().signal)) if (batch.events.length > 0) break;
      expect((await inner.get("k")).entry?.version).toBe(1);
    });
  });

  test("what is refused before it is sent stays refused", () =>
    withFaulty({ unavailable: 1 }, async (store) => {
      const twice: Txn = { compare: [], then: [...create("1").then, ...create("2").then] };
      expect(await codeOfTxn(store, twice)).toBe("INVALID_ARGUMENT");
    }));

  // A writer that sends the identical transaction until it knows counts right; one that took "unknown" for "failed" would count twice.
  test.each([1, 2, 3])("a counter that settles unknown outcomes is exact (seed %i)", (seed) => {
    const chances = { unavailable: 0.1, unknownApplied: 0.2, unknownNotApplied: 0.1, unknownLate: 0.2, lateMsMax: 3, delayMsMax: 0.5 };
    return withFaulty({ ...chances, random: new SeededRandom(seed) }, async (store, inner) => {
      await Promise.all([0, 1, 2, 3].map((writer) => count(store, writer, 25)));
      store.calm();
      expect(text((await inner.get("counter")).entry?.value)).toBe("100");
      const { injected } = store;
      expect(Math.min(injected.unavailable, injected.unknownApplied, injected.unknownNotApplied, injected.unknownLate)).toBeGreaterThan(0);
    });
  });
});

/** Adds `times` to the counter; each addition leaves a mark of its own, which the identical transaction finds. */
async function count(store: MetadataStore, writer: number, times: number): Promise<void> {
  for (let i = 0; i < times;) {
    const mark = `done/${writer}.${i}`;
    const read = await settled(() => store.get("counter"));
    const txn: Txn = {
      compare: [
        { key: "counter", target: "mod", equals: read.entry?.modRevision ?? 0 },
        { key: mark, target: "create", equals: 0 },
      ],
      then: [
        { kind: "put", key: "counter", value: bytes(String(Number(read.entry === undefined ? "0" : text(read.entry.value)) + 1)) },
        { kind: "put", key: mark, value: bytes("") },
      ],
      else: [{ kind: "get", key: mark }],
    };
    const result = await settled(() => store.txn(txn));
    const found = result.results[0];
    if (result.succeeded || (found?.kind === "range" && found.entries.length > 0)) i++;
  }
}

async function settled<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (codeOf(error) !== "UNKNOWN_OUTCOME" && codeOf(error) !== "METADATA_UNAVAILABLE") throw error;
    }
  }
}

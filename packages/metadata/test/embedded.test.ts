import { describe, expect, test } from "@jest/globals";
import { systemClock } from "@sluice/runtime";
import { openEmbeddedMetadata } from "../src/index.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
describe("embedded", () => {
  test("smoke", async () => {
    const s = openEmbeddedMetadata({ path: ":memory:", clock: systemClock });
    const l = await s.lease(5000);
    const r = await s.txn({
      compare: [{ key: "a", target: "create", equals: 0 }],
      then: [
        { kind: "put", key: "a", value: bytes("1"), lease: l.id },
        { kind: "list", prefix: "" },
      ],
    });
    expect(r).toMatchObject({ succeeded: true, revision: 2 });
    const stop = new AbortController();
    const seen = [];
    s.expireLease(l.id);
    expect(l.lost.aborted).toBe(true);
    for await (const b of s.watch("a", 1, stop.signal)) {
      seen.push(...b.events);
      if (b.revision === 3) break;
    }
    expect(seen).toHaveLength(2);
    await s.close();
  });
});

import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "@jest/globals";
import { ManualClock } from "@sluice/runtime/testing";
import { tempDir } from "@sluice/test-support";
import { describeMetadataStoreContract } from "../src/contract/index.ts";
import { openEmbeddedMetadata } from "../src/index.ts";
import { embeddedSubject } from "./embedded-subject.ts";

describeMetadataStoreContract(embeddedSubject("embedded"), { faults: false });

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const put = (key: string, lease = "0") => ({ compare: [], then: [{ kind: "put" as const, key, value: bytes("v"), lease }] });

describe("the embedded store's file", () => {
  test("is open once: not in this process, not in another", async () => {
    await using dir = await tempDir("metadata");
    const path = join(dir.path, "sub", "metadata.db");
    const clock = new ManualClock();
    const store = openEmbeddedMetadata({ path, clock });
    expect(() => openEmbeddedMetadata({ path, clock })).toThrow(expect.objectContaining({ code: "FOLDER_IN_USE" }));
    expect(await run(path, "open")).toContain("FOLDER_IN_USE");
    await store.close();
    expect(await run(path, "open")).toContain("opened");
  });

  test("holds what was answered when the process is killed, and the lock goes with it; leases end", async () => {
    await using dir = await tempDir("metadata");
    const path = join(dir.path, "metadata.db");
    // The child is killed by itself right after the answer.
    expect(await run(path, "write and die")).toContain("answered 51");
    const store = openEmbeddedMetadata({ path, clock: new ManualClock() });
    const { entries, revision } = await store.list("");
    expect(entries).toHaveLength(49);
    // 51 changes after revision 1, and the deletion of the leased key on opening.
    expect(revision).toBe(52);
    for await (const { events } of store.watch("leased", 1, new AbortController().signal)) {
      expect(events).toMatchObject([{ type: "put" }, { type: "delete", key: "leased", modRevision: 52 }]);
      break;
    }
    const lease = await store.lease(1_000);
    expect(Number(lease.id)).toBeGreaterThan(1);
    await store.close();
  });

  test("of another format, or no such file at all, is refused and left alone", async () => {
    await using dir = await tempDir("metadata");
    const clock = new ManualClock();
    const newer = join(dir.path, "newer.db");
    await openEmbeddedMetadata({ path: newer, clock }).close();
    const { DatabaseSync } = await import("node:sqlite");
    const db = new DatabaseSync(newer);
    db.exec("PRAGMA user_version = 99");
    db.close();
    expect(() => openEmbeddedMetadata({ path: newer, clock })).toThrow(expect.objectContaining({ code: "VERSION_MISMATCH" }));
    const other = join(dir.path, "other.db");
    await writeFile(other, "this is not a database, however long the text may be. ".repeat(100));
    expect(() => openEmbeddedMetadata({ path: other, clock })).toThrow(expect.objectContaining({ code: "METADATA_UNAVAILABLE" }));
  });
});

describe("the embedded store's leases", () => {
  test("end at the TTL, not before, for a holder that is not healthy", async () => {
    const clock = new ManualClock();
    const store = openEmbeddedMetadata({ path: ":memory:", clock });
    const lease = await store.lease(900);
    await store.txn(put("k", lease.id));
    lease.setHealthCheck(() => false);
    clock.advance(899);
    expect(lease.lost.aborted).toBe(false);
    expect(lease.confirmedUntilMs()).toBe(810);
    clock.advance(1);
    expect(lease.lost.aborted).toBe(true);
    expect((await store.get("k")).entry).toBeUndefined();
    await store.close();
  });

  test("outlive a pause of the whole process: nobody else could see them end", async () => {
    let nowMs = 0;
    let due: (() => void) | undefined;
    const clock = Object.assign(new ManualClock(), {
      monotonicMs: () => nowMs,
      setTimer: (_ms: number, fn: () => void) => ((due = fn), { cancel: () => undefined }),
    });
    const store = openEmbeddedMetadata({ path: ":memory:", clock });
    const lease = await store.lease(900);
    nowMs = 60_000;
    expect(lease.confirmedUntilMs()).toBeLessThan(nowMs);
    due?.();
    expect(lease.lost.aborted).toBe(false);
    expect(lease.confirmedUntilMs()).toBe(60_810);
    await store.close();
  });

  test("leave no timer behind", async () => {
    const clock = new ManualClock();
    const store = openEmbeddedMetadata({ path: ":memory:", clock });
    const lease = await store.lease(900);
    await lease.revoke();
    expect(clock.pendingTimers).toBe(0);
    await store.lease(900);
    await store.close();
    expect(clock.pendingTimers).toBe(0);
  });
});

test("history below a compaction leaves the file", async () => {
  const store = openEmbeddedMetadata({ path: ":memory:", clock: new ManualClock() });
  for (let i = 0; i < 100; i++) await store.txn(put("k"));
  await store.compact(100);
  let events = 0;
  for await (const batch of store.watch("k", 100, new AbortController().signal)) {
    events += batch.events.length;
    break;
  }
  expect(events).toBe(2);
  await store.close();
});

/** Runs embedded-process.ts on the file in a process of its own; what it wrote. */
async function run(path: string, what: string): Promise<string> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "embedded-process.ts"), path, what], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let written = "";
  child.stdout.on("data", (chunk: Buffer) => (written += chunk.toString()));
  child.stderr.on("data", (chunk: Buffer) => (written += chunk.toString()));
  await once(child, "close");
  return written;
}

import { afterEach, beforeEach, expect, test } from "@jest/globals";
import { topicId, type TopicPhase, type TopicRecord } from "@sluice/core/model";
import { openEmbeddedMetadata, type MetadataStore, type Op } from "@sluice/metadata";
import { systemClock } from "@sluice/runtime";
import { RecordingLogger } from "@sluice/runtime/testing";
import { ClusterView, createKeys, topicCodec, type ViewChange } from "../src/index.ts";

const keys = createKeys("test");
const topic = (id: string, phase: TopicPhase = "ACTIVE"): TopicRecord => ({
  tenant: "default",
  name: "t",
  topicId: topicId(id),
  partitions: 1,
  config: {},
  phase,
  createdAtMs: 1,
});
const named = (id: string, phase?: TopicPhase): Op => ({
  kind: "put",
  key: keys.topic("default", "t"),
  value: topicCodec.encode(topic(id, phase)),
});
const deleted = (id: string): Op => ({ kind: "put", key: keys.deletedTopic(topicId(id)), value: topicCodec.encode(topic(id, "DELETING")) });
const nameless: Op = { kind: "delete", key: keys.topic("default", "t") };
const cleaned = (id: string): Op => ({ kind: "delete", key: keys.deletedTopic(topicId(id)) });

let store: MetadataStore;
let view: ClusterView;
let told: string[];
const words = (changes: readonly ViewChange[]): string[] =>
  changes.map((c) =>
    c.kind === "topic"
      ? `${c.before?.topicId ?? "-"} ${c.before?.phase ?? "-"} > ${c.after?.topicId ?? "-"} ${c.after?.phase ?? "-"}`
      : c.kind,
  );

beforeEach(async () => {
  store = openEmbeddedMetadata({ path: ":memory:", clock: systemClock });
  view = new ClusterView({ store, keys, clock: systemClock, logger: new RecordingLogger(), retryMs: 5 });
  told = [];
  view.onChange((changes) => void told.push(...words(changes)));
  await view.start();
});
afterEach(async () => {
  await view.close();
  await store.close();
});
/** Written, and seen by the view. */
async function write(...then: Op[]): Promise<void> {
  const { revision } = await store.txn({ compare: [], then });
  const until = Date.now() + 2_000;
  while (view.revision < revision && Date.now() < until) await systemClock.sleep(2);
  expect(view.revision).toBeGreaterThanOrEqual(revision);
}
const now = () => ({
  named: view.topic("default", "t")?.topicId,
  byId: [...view.topicsById.values()].map((t) => `${t.topicId} ${t.phase}`).sort(),
  all: [...view.allTopics()].map((t) => t.record.topicId),
});

test.each([
  ["the name first", [nameless, deleted("a")]],
  ["the deleted first", [deleted("a"), nameless]],
])("a deleted topic leaves its name and is known by its id until it is cleaned up: %s", async (_, move) => {
  const gone = (): boolean[] => ["a", "b"].map((id) => view.isGone(topicId(id)));
  expect(gone()).toEqual([false, false]);
  await write(named("a"));
  expect(gone()).toEqual([false, false]);
  expect(view.topicEntry(topicId("a"))).toMatchObject({ key: keys.topic("default", "t"), modRevision: view.revision });
  await write(...move);
  expect(now()).toEqual({ named: undefined, byId: ["a DELETING"], all: ["a"] });
  expect(gone()).toEqual([true, false]);
  expect(view.topicEntry(topicId("a"))).toMatchObject({ key: keys.deletedTopic(topicId("a")), modRevision: view.revision });
  await write(named("b"));
  expect(now()).toEqual({ named: "b", byId: ["a DELETING", "b ACTIVE"], all: ["b", "a"] });
  await write(cleaned("a"));
  expect(now()).toEqual({ named: "b", byId: ["b ACTIVE"], all: ["b"] });
  expect(view.topicEntry(topicId("a"))).toBeUndefined();
  expect(gone()).toEqual([true, false]);
  expect(view.topicEntry(topicId("b"))?.key).toBe(keys.topic("default", "t"));
  expect(told.at(-1)).toBe("a DELETING > - -");
});

test("a name that passes from one topic to another within one event is told as one that goes and one that comes", async () => {
  await write(named("a"));
  told = [];
  await write(deleted("a"), named("b"));
  expect(now()).toEqual({ named: "b", byId: ["a DELETING", "b ACTIVE"], all: ["b", "a"] });
  expect(told).toContain("a ACTIVE > a DELETING");
  expect(told).toContain("- - > b ACTIVE");
  told = [];
  await write(named("c"));
  expect(told.sort()).toEqual(["- - > c ACTIVE", "b ACTIVE > - -"]);
});

test("a record that an earlier version marked under its name is seen there, and where it is moved to", async () => {
  await write(named("a", "DELETING"));
  expect(now()).toEqual({ named: "a", byId: ["a DELETING"], all: ["a"] });
  await write(nameless, deleted("a"));
  expect(now()).toEqual({ named: undefined, byId: ["a DELETING"], all: ["a"] });
});

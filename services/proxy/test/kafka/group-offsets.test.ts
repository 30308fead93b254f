import { describe, expect, test } from "@jest/globals";
import { apis } from "@sluice/kafka-wire";
import { inEveryVersion, scene } from "../support/group-scene.ts";

describe("offsets", () => {
  const commit = (version: number) => ({
    groupId: "g",
    generationIdOrMemberEpoch: 4,
    memberId: "m",
    topics: ["t", "u"].map((name) => ({
      name,
      partitions: [1, 0].map((partitionIndex) => ({
        partitionIndex,
        committedOffset: 10 + partitionIndex,
        ...(version >= 6 ? { committedLeaderEpoch: 2 } : {}),
        committedMetadata: partitionIndex === 0 ? null : "note",
      })),
    })),
  });

  test("committed and fetched in every version, with metadata and leader epoch", () =>
    scene({}, async ({ client, cluster }) => {
      await inEveryVersion(apis.OffsetCommit, async (version) => {
        const { topics } = await client.call(apis.OffsetCommit, version, commit(version));
        expect(topics).toMatchObject(
          ["t", "u"].map((name) => ({
            name,
            partitions: [
              { partitionIndex: 1, errorCode: 0 },
              { partitionIndex: 0, errorCode: 0 },
            ],
          })),
        );
        expect(cluster.coordinator.commits.pop()).toMatchObject({ group: "g", memberId: "m", memberEpoch: 4, beyondEnd: true });
      });
      const wanted = [{ name: "t", partitionIndexes: [0, 7, 1] }];
      const known = { partitionIndex: 1, committedOffset: 11, metadata: "note", errorCode: 0 };
      await inEveryVersion(apis.OffsetFetch, async (version) => {
        const answer = await client.call(
          apis.OffsetFetch,
          version,
          version < 8
            ? { groupId: "g", topics: wanted }
            : {
                groups: [
                  { groupId: "g", topics: wanted },
                  { groupId: "g", topics: [] },
                ],
              },
        );
        const [topic] = version < 8 ? answer.topics : (answer.groups[0]?.topics ?? []);
        const epoch = version >= 5 ? { committedLeaderEpoch: 2 } : {};
        expect(topic).toMatchObject({
          name: "t",
          partitions: [
            { partitionIndex: 0, committedOffset: 10, metadata: "", ...epoch },
            { partitionIndex: 7, committedOffset: -1, metadata: "", errorCode: 0 },
            { ...known, ...epoch },
          ],
        });
        if (version >= 8) expect(answer.groups[1]).toMatchObject({ groupId: "g", topics: [], errorCode: 0 });
        if (version < 2) return;
        const all = await client.call(
          apis.OffsetFetch,
          version,
          version < 8 ? { groupId: "g", topics: null } : { groups: [{ groupId: "g", topics: null }] },
        );
        const names = (version < 8 ? all.topics : (all.groups[0]?.topics ?? [])).map(({ name }) => name);
        expect(names).toEqual(["t", "u"]);
      });
    }));

  test("without a generation nobody in particular commits", () =>
    scene({}, async ({ client, cluster }) => {
      await client.call(apis.OffsetCommit, 2, { ...commit(2), generationIdOrMemberEpoch: -1, memberId: "" });
      expect(cluster.coordinator.commits[0]?.memberEpoch).toBeUndefined();
    }));

  test("an offset below zero reaches the group as one that forgets (kafkajs resets with -1 and -2)", () =>
    scene({}, async ({ client, cluster }) => {
      const topics = [{ name: "t", partitions: [-1, -2].map((committedOffset, partitionIndex) => ({ partitionIndex, committedOffset })) }];
      await client.call(apis.OffsetCommit, 8, { groupId: "g", topics });
      expect(cluster.coordinator.commits[0]?.offsets.map((o) => o.offset)).toEqual([-1n, -1n]);
    }));

  test("the largest offset of the protocol reaches the group as one that it refuses", () =>
    scene({}, async ({ client, cluster }) => {
      const topics = [{ name: "t", partitions: [{ partitionIndex: 0, committedOffset: 2 ** 63 - 1024 }] }];
      await client.call(apis.OffsetCommit, 8, { groupId: "g", topics });
      expect(cluster.coordinator.commits[0]?.offsets[0]?.offset).toBe(2n ** 53n);
    }));

  test("a topic without the right has its own refusal; the others go on", () =>
    scene(
      {},
      async ({ client, cluster }) => {
        const { topics } = await client.call(apis.OffsetCommit, 8, commit(8));
        expect(topics.map(({ partitions }) => partitions.map(({ errorCode }) => errorCode))).toEqual([
          [29, 29],
          [0, 0],
        ]);
        expect(cluster.coordinator.commits[0]?.offsets.map(({ topic }) => topic)).toEqual(["u", "u"]);
        const fetched = await client.call(apis.OffsetFetch, 5, {
          groupId: "g",
          topics: ["t", "u"].map((name) => ({ name, partitionIndexes: [0] })),
        });
        expect(fetched.topics.map(({ partitions }) => partitions[0]?.errorCode)).toEqual([29, 0]);
      },
      ({ resource, name }) => resource !== "topic" || name !== "t",
    ));

  test("an error of the whole group: where each version looks for it", () =>
    scene({}, async ({ client }) => {
      const topics = [{ name: "t", partitionIndexes: [0] }];
      const v1 = await client.call(apis.OffsetFetch, 1, { groupId: "", topics });
      expect(v1.topics[0]?.partitions[0]).toMatchObject({ errorCode: 24, committedOffset: -1 });
      expect(await client.call(apis.OffsetFetch, 7, { groupId: "", topics })).toMatchObject({ errorCode: 24, topics: [] });
      const v9 = await client.call(apis.OffsetFetch, 9, { groups: [{ groupId: "", topics }] });
      expect(v9.groups).toMatchObject([{ errorCode: 24, topics: [] }]);
      const { topics: refused } = await client.call(apis.OffsetCommit, 9, { ...commit(9), groupId: "" });
      expect(refused.flatMap(({ partitions }) => partitions.map(({ errorCode }) => errorCode))).toEqual([24, 24, 24, 24]);
    }));

  test("OffsetDelete: partition for partition, and a refusal of the whole group", () => {
    const deleteOffsets = ({ topics }: { topics: { topic: string; partitions: number[] }[] }) => ({
      results: topics.flatMap(({ topic, partitions }) =>
        partitions.map((partition) => ({ topic, partition, error: partition === 1 ? 110 : 0 })),
      ),
    });
    return scene({ deleteOffsets }, async ({ client, cluster }) => {
      const topics = [
        { name: "none", partitions: [] },
        { name: "t", partitions: [{ partitionIndex: 0 }, { partitionIndex: 1 }] },
      ];
      const answer = await client.call(apis.OffsetDelete, 0, { groupId: "g", topics });
      expect(answer.topics[1]?.partitions.map(({ errorCode }) => errorCode)).toEqual([0, 86]);
      expect(cluster.coordinator.scripted[0]).toMatchObject({ topics: [{ topic: "t", partitions: [0, 1] }] });
      cluster.coordinator.refusals.push("GROUP_NOT_FOUND");
      expect((await client.call(apis.OffsetDelete, 0, { groupId: "g", topics })).errorCode).toBe(69);
    });
  });
});

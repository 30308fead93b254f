import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { setTimeout as sleep } from "node:timers/promises";
import type { Sluice } from "@sluice/client";
import { apis } from "@sluice/kafka-wire";
import { KafkaClient } from "@sluice/proxy/testing";
import { say } from "@sluice/test-support";
import { createTopic, TestCluster } from "./support/cluster.ts";
import { ClassicWireMember, ServedWireMember, type WireMember, type WireMemberOptions } from "./support/wire-members.ts";

const MEMBERS = 100;
const PARTITIONS = 300;
const KILLED = 10;
const SESSION_MS = 6_000;
const HEARTBEAT_MS = 1_000;
const SETTLES_MS = 5_000;
const REPAIRED_MS = SESSION_MS + 2_000;
const GIVE_UP_MS = 60_000;

describe("a group of a hundred members over three hundred partitions", () => {
  let cluster: TestCluster;
  let sluice: Sluice;
  beforeAll(async () => {
    const config = {
      "group.initial.rebalance.delay.ms": "1000",
      "group.consumer.session.timeout.ms": String(SESSION_MS),
      "group.consumer.heartbeat.interval.ms": String(HEARTBEAT_MS),
    };
    cluster = await TestCluster.start({ name: "group-scale", proxies: 2, brokers: 2, stores: 3, config });
    sluice = await cluster.connect();
    await createTopic(sluice, "scale", PARTITIONS);
  }, 120_000);
  afterAll(async () => {
    await sluice?.close();
    await cluster?.[Symbol.asyncDispose]();
  }, 60_000);

  /** Each partition is read by one of them, and all are in the same generation. */
  function isSettled(members: readonly WireMember[]): boolean {
    const given = members.flatMap(({ owned }) => owned ?? []);
    const isWhole = given.length === PARTITIONS && new Set(given).size === PARTITIONS;
    return isWhole && members.every(({ owned }) => owned !== undefined) && new Set(members.map(({ epoch }) => epoch)).size === 1;
  }
  async function timeUntilSettled(members: readonly WireMember[]): Promise<number> {
    const began = Date.now();
    while (!isSettled(members)) {
      if (Date.now() - began > GIVE_UP_MS) throw new Error("the group did not settle");
      await sleep(10);
    }
    return Date.now() - began;
  }
  async function committedOf(group: string): Promise<Map<number, number>> {
    await using client = await KafkaClient.connect(cluster.kafka[0] as string);
    const { groups } = await client.call(apis.OffsetFetch, 8, { groups: [{ groupId: group, topics: null }] });
    expect(groups[0]?.errorCode).toBe(0);
    const partitions = groups[0]?.topics.flatMap((topic) => topic.partitions) ?? [];
    return new Map(partitions.map(({ partitionIndex, metadata }) => [partitionIndex, Number(metadata)]));
  }

  test.each([
    ["classic", ClassicWireMember],
    ["assigned by the server", ServedWireMember],
  ] as const)(
    "%s: settles within 5 s, is whole again 2 s after the session of ten that were killed, and keeps its commits",
    (group, Member) =>
      cluster.run(async () => {
        const { topicId } = await sluice.admin.describeTopic("scale");
        const options: Omit<WireMemberOptions, "address"> = {
          group,
          topic: "scale",
          topicId,
          partitions: PARTITIONS,
          sessionMs: SESSION_MS,
          heartbeatMs: HEARTBEAT_MS,
        };
        const members = await Promise.all(
          Array.from({ length: MEMBERS }, (_, i) => Member.start({ ...options, address: cluster.kafka[i % 2] as string })),
        );
        try {
          const settledMs = await timeUntilSettled(members);
          const rest = members.slice(KILLED);
          await Promise.all(members.slice(0, KILLED).map((member) => member.die()));
          const repairedMs = await timeUntilSettled(rest);
          say(`group of ${MEMBERS}, ${group}: settled in ${settledMs} ms, whole again ${repairedMs} ms after ${KILLED} were killed`);
          await Promise.all(rest.map((member) => member.die()));
          // The last commit that was answered is there, or one after it that was on its way when its member died.
          const found = await committedOf(group);
          for (const { committed } of members)
            for (const [partition, mark] of committed) expect(found.get(partition) ?? -1).toBeGreaterThanOrEqual(mark);
          expect(settledMs).toBeLessThanOrEqual(SETTLES_MS);
          expect(repairedMs).toBeLessThanOrEqual(REPAIRED_MS);
        } finally {
          await Promise.all(members.map((member) => member.die().catch(() => undefined)));
        }
      }),
    90_000,
  );
});

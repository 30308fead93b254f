import { describe, expect, test } from "@jest/globals";
import { errorNumber } from "@sluice/core/model";
import { AdminService } from "@sluice/proto/v1/admin";
import { ConsumeService } from "@sluice/proto/v1/consume";
import { GroupService } from "@sluice/proto/v1/group";
import { ProduceService } from "@sluice/proto/v1/produce";
import type { AccessRequest } from "@sluice/rpc";
import { FakeCluster } from "./support/fake-cluster.ts";
import { batchOf, startProxy, type RunningProxy } from "./support/proxy.ts";

const timeoutMs = 5_000;
const data = { case: "batch", value: batchOf(["x"]) } as const;
const earliest = { at: { case: "earliest", value: {} } } as const;

async function streamed(responses: AsyncIterable<{ readonly error: number }>): Promise<number[]> {
  const out: number[] = [];
  for await (const m of responses) out.push(m.error);
  return out;
}
/** One call of every method, on a resource called "secret". A method that is missing here fails the test. */
const calls: Readonly<Record<string, (p: RunningProxy) => Promise<unknown>>> = {
  "ProduceService.produce": (p) => p.produce.produce({ topic: "secret", data }, { timeoutMs }),
  "ProduceService.produceStream": (p) => {
    const stream = p.produce.produceStream({ timeoutMs });
    stream.write({ id: 1, topic: "secret", data });
    stream.end();
    return streamed(stream);
  },
  "ProduceService.initProducer": (p) => p.produce.initProducer({}, { timeoutMs }),
  "ConsumeService.fetch": (p) => p.consume.fetch({ topic: "secret" }, { timeoutMs }),
  "ConsumeService.consume": (p) => {
    const stream = p.consume.consume({ timeoutMs });
    stream.write({ request: { case: "start", value: { topic: "secret", position: earliest, creditBytes: 1_000 } } });
    return streamed(stream);
  },
  "ConsumeService.listOffsets": (p) => p.consume.listOffsets({ topic: "secret", position: earliest }, { timeoutMs }),
  "AdminService.createTopic": (p) => p.admin.createTopic({ name: "secret", partitions: 1 }, { timeoutMs }),
  "AdminService.listTopics": (p) => p.admin.listTopics({}, { timeoutMs }).then((reply) => reply.topics.map((t) => t.name)),
  "AdminService.describeTopic": (p) => p.admin.describeTopic({ name: "secret" }, { timeoutMs }),
  "AdminService.addPartitions": (p) => p.admin.addPartitions({ name: "secret", partitions: 9 }, { timeoutMs }),
  "AdminService.updateTopicConfig": (p) => p.admin.updateTopicConfig({ name: "secret" }, { timeoutMs }),
  "AdminService.deleteTopic": (p) => p.admin.deleteTopic({ name: "secret" }, { timeoutMs }),
  "AdminService.describeCluster": (p) => p.admin.describeCluster({}, { timeoutMs }),
  "GroupService.commit": (p) => p.groups.commit({ group: "secret" }, { timeoutMs }),
  "GroupService.fetch": (p) => p.groups.fetch({ group: "secret" }, { timeoutMs }),
  "GroupService.heartbeat": (p) => p.groups.heartbeat({ group: "secret" }, { timeoutMs }),
  "GroupService.listGroups": (p) => p.groups.listGroups({}, { timeoutMs }).then((reply) => reply.groups.map((g) => g.group)),
  "GroupService.describeGroup": (p) => p.groups.describeGroup({ group: "secret" }, { timeoutMs }),
  "GroupService.deleteGroup": (p) => p.groups.deleteGroup({ group: "secret" }, { timeoutMs }),
  "GroupService.deleteOffsets": (p) => p.groups.deleteOffsets({ group: "secret" }, { timeoutMs }),
};
/** Methods without a resource of their own: refused by their operation alone. */
const unnamed = new Set(["ProduceService.initProducer", "AdminService.describeCluster"]);

describe("access", () => {
  const methods = [ProduceService, ConsumeService, AdminService, GroupService].flatMap((service) =>
    service.methods.map((method) => `${service.typeName.split(".").at(-1)}.${method.localName}`),
  );

  test("every method is in the table of this test", () => {
    expect(Object.keys(calls).toSorted()).toEqual(methods.toSorted());
  });

  test("every method asks for the resource by its name before it does anything", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await cluster.topic("secret", 1);
    cluster.coordinator.addGroup("secret");
    const asked: AccessRequest[] = [];
    await using p = await startProxy(cluster, "proxy-1", {
      authorize: (_principal, request) => {
        asked.push(request);
        return request.name !== "secret" && request.resource !== "cluster" && request.resource !== "producer";
      },
    });
    const denied = errorNumber("PERMISSION_DENIED");
    for (const [method, call] of Object.entries(calls)) {
      asked.length = 0;
      const outcome: unknown = await call(p).catch((error: { code?: string }) => error.code);
      const expected =
        { "ProduceService.produceStream": [denied], "AdminService.listTopics": [], "GroupService.listGroups": [] }[method] ??
        "PERMISSION_DENIED";
      expect([method, outcome]).toEqual([method, expected]);
      const names = asked.map((request) => request.name);
      expect([method, names.includes("secret")]).toEqual([method, !unnamed.has(method)]);
    }
    expect(cluster.log(await cluster.topicRecord("secret"), 0).next).toBe(0);
  });

  test("a group's calls go to the coordinator of its shard, again when that has moved", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    cluster.coordinator.refusals.push("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE");
    const offsets = [{ topic: "t", partition: 0, offset: 5n }];
    const committed = await p.groups.commit({ group: "g", offsets }, { timeoutMs });
    expect(committed.results.map((r) => [r.topic, r.partition, r.error])).toEqual([["t", 0, 0]]);
    expect((await p.groups.fetch({ group: "g" }, { timeoutMs })).offsets.map((o) => o.offset)).toEqual([5n]);
    await expect(p.groups.fetch({ group: "bad\nname" }, { timeoutMs })).rejects.toMatchObject({ code: "INVALID_GROUP" });
  });

  test("a member's heartbeat carries who it is; what its group says is the error", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    expect(await p.groups.heartbeat({ group: "g", memberId: "m" }, { timeoutMs })).toMatchObject({ memberId: "m", memberEpoch: 1 });
    expect(cluster.coordinator.heartbeats).toMatchObject([{ group: "g", clientHost: "127.0.0.1" }]);
    await expect(p.groups.heartbeat({ group: "g", memberEpoch: 99 }, { timeoutMs })).rejects.toMatchObject({ code: "FENCED_MEMBER_EPOCH" });
  });

  test("groups of all shards are listed in order, a page at a time", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    const names = Array.from({ length: 7 }, (_, i) => `group-${i}`);
    for (const name of names.toReversed()) cluster.coordinator.addGroup(name);
    cluster.coordinator.refusals.push("NOT_COORDINATOR");
    const seen: string[] = [];
    for (let more = true; more;) {
      const page = await p.groups.listGroups({ after: seen.at(-1) ?? "", limit: 3 }, { timeoutMs });
      seen.push(...page.groups.map((g) => g.group));
      more = page.more;
    }
    expect(seen).toEqual(names);
  });

  test("groups that are hidden do not end the list of those that are not", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster, "proxy-1", {
      authorize: (_principal, { resource, name }) => resource !== "group" || name === undefined || name.startsWith("mine"),
    });
    for (let i = 0; i < 7; i++) cluster.coordinator.addGroup(`hidden-${i}`);
    for (const name of ["mine-1", "mine-2", "zz-hidden"]) cluster.coordinator.addGroup(name);
    const pages: string[][] = [];
    for (let more = true; more;) {
      const page = await p.groups.listGroups({ after: pages.at(-1)?.at(-1) ?? "", limit: 2 }, { timeoutMs });
      pages.push(page.groups.map((g) => g.group));
      more = page.more && page.groups.length > 0;
    }
    expect(pages.flat()).toEqual(["mine-1", "mine-2"]);
  });

  test("topics of the cluster take no records from clients", async () => {
    await using cluster = new FakeCluster();
    await cluster.start();
    await using p = await startProxy(cluster);
    await cluster.topic("__sluice_groups", 1);
    const write = p.produce.produce({ topic: "__sluice_groups", data }, { timeoutMs });
    await expect(write).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
  });
});

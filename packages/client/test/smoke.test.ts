import { expect, test } from "@jest/globals";
import { connect } from "../src/index.ts";
import { FakeCluster, startProxy } from "./fake-cluster.ts";

test("a record goes round", async () => {
  const cluster = new FakeCluster();
  await using proxy = await startProxy(cluster);
  await using sluice = await connect({ endpoints: [proxy.address] });
  await sluice.admin.createTopic({ name: "t", partitions: 3 });
  const producer = sluice.producer({ topic: "t" });
  const sent = await Promise.all(
    Array.from({ length: 1000 }, (_, i) => producer.send({ key: `k${i}`, value: `v${i}`, headers: { h: "x" } })),
  );
  expect(sent).toHaveLength(1000);
  await using consumer = sluice.consumer({ topic: "t", from: "earliest", untilEnd: true });
  const got: string[] = [];
  for await (const r of consumer) got.push(r.valueText() ?? "");
  expect(got.toSorted()).toEqual(Array.from({ length: 1000 }, (_, i) => `v${i}`).toSorted());
}, 10_000);

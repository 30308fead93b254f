import { describe, expect, test } from "@jest/globals";
import type { ClusterView } from "@sluice/catalog";
import { ViewTopics } from "../src/topic-lookup.ts";

describe("patterns", () => {
  test("match the topics of their tenant, whoever asked with the same pattern before", () => {
    const topic = (tenant: string, name: string) => [`${tenant}-${name}`, { tenant, name, phase: "ACTIVE" }] as const;
    const view = {
      topicsById: new Map([topic("a", "orders"), topic("b", "orders"), topic("b", "ordinary"), topic("a", "other")]),
      onChange: () => () => undefined,
    } as unknown as ClusterView;
    const topics = new ViewTopics(view);
    expect(topics.matching("a", "ord.*")).toEqual(["orders"]);
    expect(topics.matching("b", "ord.*")).toEqual(["orders", "ordinary"]);
    expect(topics.matching("a", "ord.*")).toEqual(["orders"]);
    expect(() => topics.checkPattern("a", "(")).toThrow(expect.objectContaining({ code: "INVALID_REGULAR_EXPRESSION" }));
    topics.close();
  });
});

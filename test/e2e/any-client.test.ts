import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { fileURLToPath } from "node:url";
import { ensureGrpcurl, ensurePythonGrpc, run } from "@sluice/test-support";
import { TestCluster } from "./support/cluster.ts";

const SCRIPT = fileURLToPath(new URL("support/any_client.py", import.meta.url));
const CALL_TIMEOUT_MS = 60_000;

describe("clients that know nothing but server reflection", () => {
  let cluster: TestCluster;
  let python: string;
  let curl: string | undefined;
  beforeAll(async () => {
    [python, curl] = [await ensurePythonGrpc(), await ensureGrpcurl()];
    cluster = await TestCluster.start({ name: "any-client", proxies: 1, brokers: 1, stores: 3 });
  }, 900_000);
  afterAll(() => cluster?.[Symbol.asyncDispose](), 60_000);

  test("a Python client creates a topic, produces and consumes", async () => {
    await cluster.run(async () => {
      const output = await run(python, [SCRIPT, cluster.proxies[0]!, "from-python"], { timeoutMs: CALL_TIMEOUT_MS });
      expect(output.trim()).toBe("ok");
    });
  }, 90_000);

  test("grpcurl creates a topic, produces and consumes", async () => {
    if (curl === undefined) return;
    await cluster.run(async () => {
      const call = async (method: string, request: object): Promise<Record<string, unknown>> =>
        JSON.parse(
          await run(curl!, ["-plaintext", "-d", JSON.stringify(request), cluster.proxies[0]!, method], { timeoutMs: CALL_TIMEOUT_MS }),
        ) as Record<string, unknown>;
      const services = await run(curl!, ["-plaintext", cluster.proxies[0]!, "list"], { timeoutMs: CALL_TIMEOUT_MS });
      expect(services).toContain("sluice.v1.ProduceService");
      await call("sluice.v1.AdminService/CreateTopic", { name: "from-grpcurl", partitions: 1 });
      const value = Buffer.from("hello").toString("base64");
      const stored = await call("sluice.v1.ProduceService/Produce", {
        topic: "from-grpcurl",
        partition: 0,
        records: { records: [{ value }] },
      });
      // Fields that are zero are left out.
      expect(stored["baseOffset"] ?? "0").toBe("0");
      const read = await call("sluice.v1.ConsumeService/Fetch", { topic: "from-grpcurl", partition: 0, offset: 0, waitMs: 5_000 });
      expect(read).toMatchObject({ records: { records: [{ value }] }, nextOffset: "1" });
    });
  }, 90_000);
});

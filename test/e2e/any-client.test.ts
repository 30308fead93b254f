import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { fileURLToPath } from "node:url";
import { ensureGrpcurl, ensurePythonGrpc, run } from "@sluice/test-support";
import { startStandalone, type Standalone } from "./support/sluice-command.ts";

const SCRIPT = fileURLToPath(new URL("support/any_client.py", import.meta.url));
const CALL_TIMEOUT_MS = 60_000;

describe("clients that know nothing but server reflection", () => {
  let server: Standalone;
  let python: string;
  let curl: string | undefined;
  beforeAll(async () => {
    [python, curl] = [await ensurePythonGrpc(), await ensureGrpcurl()];
    server = await startStandalone("any-client");
  }, 900_000);
  afterAll(() => server?.[Symbol.asyncDispose](), 60_000);

  test("a Python client creates a topic, produces and consumes", async () => {
    const output = await run(python, [SCRIPT, server.endpoint, "from-python"], { timeoutMs: CALL_TIMEOUT_MS });
    expect(output.trim()).toBe("ok");
  }, 90_000);

  test("grpcurl creates a topic, produces and consumes", async () => {
    if (curl === undefined) return;
    const call = async (method: string, request: object): Promise<Record<string, unknown>> =>
      JSON.parse(
        await run(curl!, ["-plaintext", "-d", JSON.stringify(request), server.endpoint, method], { timeoutMs: CALL_TIMEOUT_MS }),
      ) as Record<string, unknown>;
    const services = await run(curl!, ["-plaintext", server.endpoint, "list"], { timeoutMs: CALL_TIMEOUT_MS });
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
  }, 90_000);
});

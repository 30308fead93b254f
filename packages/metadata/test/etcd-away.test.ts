import { expect, test } from "@jest/globals";
import { createServer } from "node:http2";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { systemClock, systemRandom } from "@sluice/runtime";
import { RecordingLogger } from "@sluice/runtime/testing";
import { openEtcdMetadata } from "../src/index.ts";

test("an etcd that is away is named in the log, once and not for every call, and so is its return", async () => {
  const http2 = createServer();
  http2.listen(0, "127.0.0.1");
  await once(http2, "listening");
  const { port } = http2.address() as AddressInfo;
  await new Promise((resolve) => http2.close(resolve));
  const logger = new RecordingLogger();
  const store = openEtcdMetadata({ endpoints: [`127.0.0.1:${port}`], clock: systemClock, random: systemRandom, logger });
  const waits = () => logger.lines.filter((line) => line.event === "waiting for etcd");
  const get = (timeoutMs: number) => store.get("k", { timeoutMs }).catch((error: { code: string }) => error.code);
  try {
    expect(await get(300)).toBe("METADATA_UNAVAILABLE");
    expect(waits()).toEqual([]);
    expect(await Promise.all([get(1_500), get(1_500)])).toEqual(["METADATA_UNAVAILABLE", "METADATA_UNAVAILABLE"]);
    expect(await get(100)).toBe("METADATA_UNAVAILABLE");
    expect(waits()).toHaveLength(1);
    expect(waits()[0]).toMatchObject({ fields: { endpoints: `127.0.0.1:${port}` } });
    const back = createServer().listen(port, "127.0.0.1");
    await get(2_000);
    expect(logger.find("etcd answers")).toBeDefined();
    expect(waits()).toHaveLength(1);
    back.close();
  } finally {
    await store.close();
  }
}, 15_000);

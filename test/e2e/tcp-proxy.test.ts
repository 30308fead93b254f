import { describe, expect, test } from "@jest/globals";
import { once } from "node:events";
import { connect, createServer, type AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { startTcpProxy, type TcpProxyOptions } from "@sluice/test-support";

// The faults that other tests rely on.
async function echoThrough(options: TcpProxyOptions) {
  const stack = new AsyncDisposableStack();
  const server = createServer((socket) => socket.on("error", () => undefined).pipe(socket)).listen(0, "127.0.0.1");
  stack.defer(() => void server.close());
  await once(server, "listening");
  const proxy = stack.use(await startTcpProxy((server.address() as AddressInfo).port, options));
  const client = connect(proxy.port, "127.0.0.1");
  stack.defer(() => void client.destroy());
  const got = { bytes: 0 };
  client.on("data", (chunk) => void (got.bytes += chunk.length)).on("error", () => undefined);
  return { stack, proxy, client, got };
}
async function received(got: { bytes: number }, bytes: number): Promise<void> {
  while (got.bytes < bytes) await sleep(5);
}

describe("the proxy for faults", () => {
  test("slows to the rate", async () => {
    const { stack, client, got } = await echoThrough({ bytesPerSecond: 1_000_000 });
    await using _ = stack;
    const startMs = performance.now();
    client.write(new Uint8Array(500_000));
    await received(got, 500_000);
    expect(performance.now() - startMs).toBeGreaterThan(350);
    expect(performance.now() - startMs).toBeLessThan(3_000);
  }, 10_000);
  test("holds what passes, and lets it go whole", async () => {
    const { stack, proxy, client, got } = await echoThrough({});
    await using _ = stack;
    client.write("hello");
    await received(got, 5);
    proxy.hold();
    client.write(new Uint8Array(300_000));
    await sleep(200);
    expect(got.bytes).toBe(5);
    proxy.release();
    await received(got, 300_005);
  }, 10_000);
});

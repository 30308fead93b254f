import { describe, expect, test } from "@jest/globals";
import { createRpcClient, implement } from "../src/index.ts";
import { createMetrics } from "@sluice/runtime";
import { EchoService } from "./gen/sluice/rpctest/v1/echo_pb.ts";
import { echoAccess, echoHandlers, startEcho } from "./support.ts";

const timeoutMs = 20_000;
/** Small windows: what lies between the two sides is a few MiB of the 25 that would be sent. */
const limits = { windowBytes: 1024 * 1024 };
const count = 400;
const payload = new Uint8Array(64 * 1024);

describe("back-pressure", () => {
  test("a client that stops reading stops the server's generator", async () => {
    let made = 0;
    await using echo = await startEcho({
      limits,
      services: [
        implement(echoAccess, {
          ...echoHandlers,
          async *down(request) {
            for (; made < request.count; made++) yield { count: made, payload };
          },
        }),
      ],
    });
    const client = createRpcClient(EchoService, echo.address, { limits });
    const messages = client.down({ count }, { timeoutMs })[Symbol.asyncIterator]();
    await messages.next();
    // Until it makes no progress for a while: then everything between the two is full.
    for (let before = -1, still = 0; still < 20; before = made) {
      still = made === before ? still + 1 : 0;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(made).toBeLessThan(150);
    let last = 0;
    for (let next = await messages.next(); next.done !== true; next = await messages.next()) last = next.value.count;
    expect(last).toBe(count - 1);
    client.close();
  }, 30_000);

  test("a server that does not read stops the client's write", async () => {
    await using echo = await startEcho({
      limits,
      services: [
        implement(echoAccess, {
          ...echoHandlers,
          both: {
            async stream(call, context) {
              call.pause();
              await new Promise<void>((resolve) => context.signal.addEventListener("abort", () => resolve()));
            },
          },
        }),
      ],
    });
    const client = createRpcClient(EchoService, echo.address, { limits });
    const both = client.both({ timeoutMs });
    let written = 0;
    while (written < count) {
      written++;
      if (both.write({ payload })) continue;
      const room = await Promise.race([both.drained().then(() => true), new Promise((r) => setTimeout(() => r(false), 500))]);
      if (room !== true) break;
    }
    expect(written).toBeLessThan(150);
    both.cancel();
    await both.drained();
    client.close();
  }, 30_000);

  test("calls are counted by method and code", async () => {
    const metrics = createMetrics({ service: "echo" });
    await using echo = await startEcho({ metrics });
    const client = createRpcClient(EchoService, echo.address, { limits });
    await client.unary({}, { timeoutMs });
    await client.unary({ fail: "NOT_OWNER" }, { timeoutMs }).catch(() => undefined);
    const labels = { method: "EchoService/Unary" };
    expect(await metrics.value("sluice_echo_rpc_calls_total", { ...labels, code: "OK" })).toBe(1);
    expect(await metrics.value("sluice_echo_rpc_calls_total", { ...labels, code: "NOT_OWNER" })).toBe(1);
    client.close();
  });
});

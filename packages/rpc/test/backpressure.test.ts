import { describe, expect, test } from "@jest/globals";
import { createRpcClient, implement } from "../src/index.ts";
import { createMetrics } from "@sluice/runtime";
import { EchoService } from "./gen/sluice/rpctest/v1/echo_pb.ts";
import { echoAccess, echoHandlers, startEcho } from "./support.ts";

const timeoutMs = 20_000;

describe("back-pressure", () => {
  test("a client that stops reading stops the server's generator", async () => {
    let made = 0;
    await using echo = await startEcho({
      services: [
        implement(echoAccess, {
          ...echoHandlers,
          async *down(request) {
            for (; made < request.count; made++) yield { count: made, payload: new Uint8Array(256 * 1024) };
          },
        }),
      ],
    });
    const client = createRpcClient(EchoService, echo.address);
    const count = 400;
    const messages = client.down({ count }, { timeoutMs })[Symbol.asyncIterator]();
    await messages.next();
    // Until it makes no progress for a while: then everything between the two is full.
    for (let before = -1, still = 0; still < 20; before = made) {
      still = made === before ? still + 1 : 0;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    // Windows of 8 MiB and two buffers of 16 messages, of 100 MiB in all.
    expect(made).toBeLessThan(120);
    let last = 0;
    for (let next = await messages.next(); next.done !== true; next = await messages.next()) last = next.value.count;
    expect(last).toBe(count - 1);
    client.close();
  });

  test("a server that does not read stops the client's write", async () => {
    await using echo = await startEcho({
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
    const client = createRpcClient(EchoService, echo.address);
    const both = client.both({ timeoutMs });
    let written = 0;
    const payload = new Uint8Array(256 * 1024);
    while (written < 400) {
      written++;
      if (both.write({ payload })) continue;
      const room = await Promise.race([both.drained().then(() => true), new Promise((r) => setTimeout(() => r(false), 500))]);
      if (room !== true) break;
    }
    expect(written).toBeLessThan(120);
    both.cancel();
    await both.drained();
    client.close();
  });

  test("calls are counted by method and code", async () => {
    const metrics = createMetrics({ service: "echo" });
    await using echo = await startEcho({ metrics });
    const client = createRpcClient(EchoService, echo.address);
    await client.unary({}, { timeoutMs });
    await client.unary({ fail: "NOT_OWNER" }, { timeoutMs }).catch(() => undefined);
    const labels = { method: "EchoService/Unary" };
    expect(await metrics.value("sluice_echo_rpc_calls_total", { ...labels, code: "OK" })).toBe(1);
    expect(await metrics.value("sluice_echo_rpc_calls_total", { ...labels, code: "NOT_OWNER" })).toBe(1);
    client.close();
  });
});

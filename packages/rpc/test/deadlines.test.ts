import { describe, expect, test } from "@jest/globals";
import type { SluiceError } from "@sluice/core/model";
import { systemClock } from "@sluice/runtime";
import { type CallContext, createRpcClient, implement } from "../src/index.ts";
import { EchoService } from "./gen/sluice/rpctest/v1/echo_pb.ts";
import { echoAccess, echoHandlers, startEcho } from "./support.ts";

/** A server whose unary calls hang until their signal aborts, and which tells why. */
async function startHanging(limits: { unaryTimeoutMaxMs: number } = { unaryTimeoutMaxMs: 60_000 }) {
  const seen = Promise.withResolvers<CallContext>();
  const ended = Promise.withResolvers<string>();
  const echo = await startEcho({
    limits,
    services: [
      implement(echoAccess, {
        ...echoHandlers,
        unary(_request, context) {
          seen.resolve(context);
          return new Promise((_resolve, reject) => {
            context.signal.addEventListener("abort", () => {
              ended.resolve((context.signal.reason as SluiceError).code);
              reject(context.signal.reason as Error);
            });
          });
        },
        async *down(_request, context) {
          seen.resolve(context);
          context.signal.addEventListener("abort", () => ended.resolve((context.signal.reason as SluiceError).code));
          for (let i = 0; ; i++) yield { count: i, payload: new Uint8Array(1_000) };
        },
      }),
    ],
  });
  return { echo, seen: seen.promise, ended: ended.promise };
}

describe("deadlines and cancels", () => {
  test("a call without a deadline is refused before it is sent", async () => {
    await using echo = await startEcho();
    const client = createRpcClient(EchoService, echo.address);
    for (const timeoutMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      await expect(client.unary({}, { timeoutMs })).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    }
    client.close();
  });

  test("the client's deadline reaches the handler and ends both sides with TIMED_OUT", async () => {
    const { echo, seen, ended } = await startHanging();
    const client = createRpcClient(EchoService, echo.address);
    const call = client.unary({}, { timeoutMs: 300 });
    await expect(call).rejects.toMatchObject({ code: "TIMED_OUT" });
    const left = (await seen).deadlineMs - systemClock.monotonicMs();
    expect(left).toBeLessThan(100);
    expect(["TIMED_OUT", "CANCELLED"]).toContain(await ended);
    client.close();
    await echo.server.stop();
  });

  test("the server bounds unary calls even when the client would wait", async () => {
    const { echo, ended } = await startHanging({ unaryTimeoutMaxMs: 100 });
    const client = createRpcClient(EchoService, echo.address);
    await expect(client.unary({}, { timeoutMs: 60_000 })).rejects.toMatchObject({ code: "TIMED_OUT" });
    expect(await ended).toBe("TIMED_OUT");
    client.close();
    await echo.server.stop();
  });

  test("an abort cancels a unary call on both sides", async () => {
    const { echo, seen, ended } = await startHanging();
    const client = createRpcClient(EchoService, echo.address);
    const abort = new AbortController();
    const call = client.unary({}, { timeoutMs: 60_000, signal: abort.signal });
    await seen;
    abort.abort();
    await expect(call).rejects.toMatchObject({ code: "CANCELLED" });
    expect(await ended).toBe("CANCELLED");
    await expect(client.unary({}, { timeoutMs: 60_000, signal: abort.signal })).rejects.toMatchObject({ code: "CANCELLED" });
    client.close();
    await echo.server.stop();
  });

  test("leaving a loop early cancels an endless stream and the server's generator ends", async () => {
    const { echo, ended } = await startHanging();
    const client = createRpcClient(EchoService, echo.address);
    for await (const message of client.down({}, { timeoutMs: 60_000 })) if (message.count === 10) break;
    expect(await ended).toBe("CANCELLED");
    client.close();
    await echo.server.stop();
    expect(echo.server.openCalls).toBe(0);
  });

  test("a stream cancelled at every moment crashes neither side", async () => {
    await using echo = await startEcho();
    const client = createRpcClient(EchoService, echo.address);
    for (let i = 0; i < 30; i++) {
      const both = client.both({ timeoutMs: 10_000 });
      for (let n = 0; n < i; n++) both.write({ text: "x", payload: new Uint8Array(10_000) });
      if (i % 3 === 0) await new Promise<void>((resolve) => void setImmediate(resolve));
      both.cancel();
      await expect(both[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: "CANCELLED" });
    }
    expect((await client.unary({ text: "alive" }, { timeoutMs: 10_000 })).text).toBe("alive||");
    client.close();
  });
});

import { describe, expect, test } from "@jest/globals";
import { systemClock } from "@sluice/runtime";
import { createRpcClient, implement } from "../src/index.ts";
import { Health, HealthCheckResponse_ServingStatus as Status } from "../src/gen/grpc/health/v1/health_pb.ts";
import { EchoService } from "./gen/sluice/rpctest/v1/echo_pb.ts";
import { echoAccess, echoHandlers, startEcho } from "./support.ts";

const timeoutMs = 10_000;
/** A deadline that never comes, or has come. */
const within = (signal: AbortSignal) => ({ signal, remainingMs: () => (signal.aborted ? 0 : timeoutMs) });

describe("drain and stop", () => {
  test("a drain finishes what is open, refuses what is new, and tells the health watchers", async () => {
    const release = Promise.withResolvers<void>();
    const inside = Promise.withResolvers<void>();
    const echo = await startEcho({
      services: [
        implement(echoAccess, {
          ...echoHandlers,
          async unary() {
            inside.resolve();
            await release.promise;
            return { text: "finished" };
          },
        }),
      ],
    });
    const health = createRpcClient(Health, echo.address);
    const client = createRpcClient(EchoService, echo.address);
    const states: Status[] = [];
    const watch = (async () => {
      for await (const reply of health.watch({ service: "" }, { timeoutMs })) states.push(reply.status);
    })();
    const open = client.unary({}, { timeoutMs });
    await inside.promise;
    expect((await health.check({ service: EchoService.typeName }, { timeoutMs })).status).toBe(Status.SERVING);
    const drained = echo.server.drain(within(new AbortController().signal));
    await watch;
    expect(states).toEqual([Status.SERVING, Status.NOT_SERVING]);
    const late = createRpcClient(EchoService, echo.address);
    await expect(late.unary({}, { timeoutMs: 1_000 })).rejects.toMatchObject({ code: "UNREACHABLE" });
    expect(echo.server.openCalls).toBe(1);
    release.resolve();
    expect((await open).text).toBe("finished");
    await drained;
    for (const c of [health, client, late]) c.close();
    await echo.server.stop();
  });

  test("long streams see the drain and end themselves", async () => {
    const echo = await startEcho({
      services: [
        implement(echoAccess, {
          ...echoHandlers,
          both: {
            async stream(call, context) {
              call.listen(
                (request) => void call.write({ text: request.text }),
                () => undefined,
              );
              await new Promise<void>((resolve) => context.draining.addEventListener("abort", () => resolve(), { once: true }));
            },
          },
        }),
      ],
    });
    const client = createRpcClient(EchoService, echo.address);
    const both = client.both({ timeoutMs: Number.POSITIVE_INFINITY });
    const messages = both[Symbol.asyncIterator]();
    both.write({ text: "one" });
    expect((await messages.next()).value?.text).toBe("one");
    await echo.server.drain(within(new AbortController().signal));
    expect(await messages.next()).toMatchObject({ done: true });
    client.close();
    await echo.server.stop();
  });

  test("at the deadline the drain returns, and stop ends the rest with SHUTTING_DOWN", async () => {
    const inside = Promise.withResolvers<void>();
    const echo = await startEcho({
      services: [
        implement(echoAccess, {
          ...echoHandlers,
          unary() {
            inside.resolve();
            return new Promise(() => undefined);
          },
        }),
      ],
    });
    const client = createRpcClient(EchoService, echo.address);
    const open = client.unary({}, { timeoutMs });
    const outcome = expect(open).rejects.toMatchObject({ code: "SHUTTING_DOWN", retriable: true });
    await inside.promise;
    await echo.server.drain(within(AbortSignal.abort()));
    const startedMs = systemClock.monotonicMs();
    await echo.server.stop();
    expect(systemClock.monotonicMs() - startedMs).toBeLessThan(2_000);
    await outcome;
    await echo.server.stop();
    client.close();
  });
});

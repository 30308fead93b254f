import { describe, expect, test } from "@jest/globals";
import { SluiceError } from "@sluice/core/model";
import { type AccessRequest, createRpcClient, defineAccess, implement } from "../src/index.ts";
import { EchoService } from "./gen/sluice/rpctest/v1/echo_pb.ts";
import { echoAccess, echoHandlers, echoRules, startEcho } from "./support.ts";

const timeoutMs = 10_000;

describe("access", () => {
  test("a method without an entry, or an entry without a method, is refused at start", () => {
    const { unary: _unary, ...missing } = echoRules;
    expect(() => defineAccess(EchoService, missing as typeof echoRules)).toThrow(/Unary has no entry/);
    expect(() => defineAccess(EchoService, { ...echoRules, extra: "open" } as typeof echoRules)).toThrow(/names extra/);
    const { both: _both, ...handlers } = echoHandlers;
    expect(() => implement(echoAccess, handlers as typeof echoHandlers)).toThrow(/Both has no handler/);
  });

  test("the authorizer is asked for every method, and for names that the handler finds", async () => {
    const asked: AccessRequest[] = [];
    await using echo = await startEcho({
      services: [
        implement(echoAccess, {
          ...echoHandlers,
          async unary(request, context) {
            await context.authorize(request.text);
            return { text: context.principal.name };
          },
        }),
      ],
      authenticate: () => ({ name: "User:bob", tenant: "default" }),
      authorizer: {
        authorize(principal, request) {
          asked.push(request);
          return principal.name === "User:bob" && request.name !== "secret-topic" && request.operation !== "write";
        },
      },
    });
    const client = createRpcClient(EchoService, echo.address);
    expect((await client.unary({ text: "public" }, { timeoutMs })).text).toBe("User:bob");
    await expect(client.unary({ text: "secret-topic" }, { timeoutMs })).rejects.toMatchObject({
      code: "PERMISSION_DENIED",
      message: "User:bob may not read topic secret-topic",
    });
    const both = client.both({ timeoutMs });
    both.write({ text: "x" });
    await expect(both[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
    expect(asked[0]).toEqual({ resource: "topic", operation: "read", name: undefined });
    client.close();
  });

  test("who cannot prove who they are gets UNAUTHENTICATED, except from health", async () => {
    await using echo = await startEcho({
      authenticate: () => {
        throw new SluiceError("UNAUTHENTICATED", "no token");
      },
    });
    const client = createRpcClient(EchoService, echo.address);
    await expect(client.unary({}, { timeoutMs })).rejects.toMatchObject({ code: "UNAUTHENTICATED", message: "no token" });
    client.close();
  });
});

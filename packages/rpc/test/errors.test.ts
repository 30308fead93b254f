import { describe, expect, test } from "@jest/globals";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { Metadata, status as grpcStatus } from "@grpc/grpc-js";
import { type ErrorCode, errorCatalogue, SluiceError } from "@sluice/core/model";
import { createRpcClient, fromStatus, toStatus } from "../src/index.ts";
import { EchoService } from "./gen/sluice/rpctest/v1/echo_pb.ts";
import { startEcho } from "./support.ts";

const timeoutMs = 10_000;

describe("errors", () => {
  test("every code of the catalogue survives the way to the client", () => {
    for (const code of Object.keys(errorCatalogue) as ErrorCode[]) {
      const status = toStatus(new SluiceError(code, `about ${code}`, { throttleMs: 40 }));
      expect(status.code).toBe(grpcStatus[errorCatalogue[code].grpc]);
      expect(fromStatus(status)).toMatchObject({ code, message: `about ${code}`, throttleMs: 40 });
    }
  });

  test("a fault of ours is INTERNAL and its text stays on the server, in the log", async () => {
    await using echo = await startEcho();
    const client = createRpcClient(EchoService, echo.address);
    const error = await client.unary({ fail: "boom" }, { timeoutMs }).catch((e: unknown) => e);
    expect(error).toMatchObject({ code: "INTERNAL" });
    expect(JSON.stringify([String(error), (error as Error).cause])).not.toContain("secret");
    expect(echo.logger.find("rpc handler failed")).toMatchObject({ fields: { err: { message: "the secret inside" } } });
    client.close();
  });

  test("each kind of call brings the code, the hint and the advice to wait", async () => {
    await using echo = await startEcho();
    const client = createRpcClient(EchoService, echo.address);
    const expected = { code: "OVERLOADED", retriable: true, throttleMs: 1_250, message: "asked for OVERLOADED" };
    await expect(client.unary({ fail: "OVERLOADED" }, { timeoutMs })).rejects.toMatchObject(expected);
    async function* one() {
      yield { fail: "OVERLOADED" };
    }
    await expect(client.up(one(), { timeoutMs })).rejects.toMatchObject(expected);
    const got: number[] = [];
    const down = (async () => {
      for await (const message of client.down({ count: 3, fail: "OVERLOADED" }, { timeoutMs })) got.push(message.count);
    })();
    await expect(down).rejects.toMatchObject(expected);
    // What was sent before the error is not lost.
    expect(got).toEqual([0, 1, 2]);
    const both = client.both({ timeoutMs });
    both.write({ fail: "OVERLOADED" });
    await expect(both[Symbol.asyncIterator]().next()).rejects.toMatchObject(expected);
    client.close();
  });

  test("statuses without our details map to the nearest code", () => {
    const bare = (code: grpcStatus, details: string) => fromStatus({ code, details, metadata: new Metadata() }).code;
    expect(bare(grpcStatus.UNAVAILABLE, "No connection established. Last error: connect ECONNREFUSED")).toBe("UNREACHABLE");
    expect(bare(grpcStatus.UNAVAILABLE, "Connection dropped")).toBe("OUTCOME_UNKNOWN");
    expect(bare(grpcStatus.INTERNAL, "Received RST_STREAM with code 2")).toBe("OUTCOME_UNKNOWN");
    expect(bare(grpcStatus.DEADLINE_EXCEEDED, "Deadline exceeded")).toBe("TIMED_OUT");
    expect(bare(grpcStatus.RESOURCE_EXHAUSTED, "Received message larger than max (5 vs 4)")).toBe("FRAME_TOO_LARGE");
    expect(bare(grpcStatus.UNIMPLEMENTED, "no such method")).toBe("VERSION_MISMATCH");
  });

  test("a deadline of the client's own is told without the insides of the library", () => {
    const told = (details: string) => fromStatus({ code: grpcStatus.DEADLINE_EXCEEDED, details }).message;
    expect(
      told("Deadline exceeded after 2.003s,name resolution: 0.001s,metadata filters: 0.001s,LB pick: 0.012s,remote_addr=127.0.0.1:7070"),
    ).toBe("no answer from 127.0.0.1:7070 within 2.0 s");
    expect(told("Deadline exceeded after 0.512s,name resolution: 0.001s,Waiting for LB pick")).toBe("no connection within 0.5 s");
    expect(told("somebody else's words")).toBe("somebody else's words");
  });
  test("a port that accepts and says nothing", async () => {
    const silent = createServer();
    await once(silent.listen(0, "127.0.0.1"), "listening");
    const client = createRpcClient(EchoService, `127.0.0.1:${(silent.address() as AddressInfo).port}`);
    const answer = client.unary({}, { timeoutMs: 300 });
    await expect(answer).rejects.toMatchObject({ code: "TIMED_OUT", message: expect.stringMatching(/^no connection within 0\.\d s$/) });
    client.close();
    silent.close();
  });

  test("hostile details are ignored", () => {
    const metadata = new Metadata();
    metadata.set("grpc-status-details-bin", Buffer.from([0xff, 0xff, 0xff, 0x01]));
    expect(fromStatus({ code: grpcStatus.CANCELLED, details: "x", metadata }).code).toBe("CANCELLED");
  });

  test("a closed port is UNREACHABLE: nothing was sent", async () => {
    const echo = await startEcho();
    const { address } = echo;
    await echo.server.stop();
    const client = createRpcClient(EchoService, address);
    await expect(client.unary({}, { timeoutMs: 3_000 })).rejects.toMatchObject({ code: "UNREACHABLE" });
    client.close();
  });
});

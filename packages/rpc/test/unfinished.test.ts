import { afterEach, describe, expect, jest, test } from "@jest/globals";
import { connect as connectHttp2, type ClientHttp2Session, type ClientHttp2Stream } from "node:http2";
import { once } from "node:events";
import { timers } from "@sluice/core/model";
import { createMetrics } from "@sluice/runtime";
import { createRpcClient, fromStatus, implement, type RpcServerOptions } from "../src/index.ts";
import { Metadata, status as grpcStatus } from "@grpc/grpc-js";
import { EchoService } from "./gen/sluice/rpctest/v1/echo_pb.ts";
import { echoAccess, echoHandlers, type Echo, startEcho } from "./support.ts";

const MiB = 1024 * 1024;
const timeoutMs = 10_000;

const head = (length: number): Buffer => {
  const bytes = Buffer.alloc(5);
  bytes.writeUInt32BE(length, 1);
  return bytes;
};
/** One gRPC call made by hand; `ended` tells the code of its end. */
interface RawCall {
  readonly stream: ClientHttp2Stream;
  readonly ended: Promise<string>;
}
function rawCall(session: ClientHttp2Session, method = "Up"): RawCall {
  const stream = session.request({
    ":method": "POST",
    ":path": `/sluice.rpctest.v1.EchoService/${method}`,
    "content-type": "application/grpc",
    te: "trailers",
  });
  stream.on("error", () => undefined);
  stream.resume();
  let code = "";
  const look = (headers: Readonly<Record<string, unknown>>): void => {
    const status = headers["grpc-status"];
    if (status !== "0" && status !== "8") return;
    const metadata = new Metadata();
    const details = headers["grpc-status-details-bin"];
    if (typeof details === "string") metadata.set("grpc-status-details-bin", Buffer.from(details, "base64"));
    code = status === "0" ? "OK" : `8 ${fromStatus({ code: grpcStatus.RESOURCE_EXHAUSTED, details: "", metadata }).code}`;
  };
  stream.on("response", look);
  stream.on("trailers", look);
  const ended = new Promise<string>((resolve) => {
    stream.once("close", () => resolve(code === "" ? `reset ${stream.rstCode}` : code));
  });
  return { stream, ended };
}
/** Resolves when the server has taken what the stream was given, or has ended it. */
async function taken(stream: ClientHttp2Stream, bytes: Buffer): Promise<void> {
  if (stream.destroyed || stream.closed) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  stream.once("close", resolve);
  stream.write(bytes, () => resolve());
  await promise;
  stream.off("close", resolve);
}

describe("messages that do not end", () => {
  jest.setTimeout(20_000);
  const sessions: ClientHttp2Session[] = [];
  afterEach(() => {
    for (const session of sessions.splice(0)) session.destroy();
  });
  const open = (echo: Echo): ClientHttp2Session => {
    const session = connectHttp2(`http://${echo.address}`);
    session.on("error", () => undefined);
    sessions.push(session);
    return session;
  };
  const start = async (
    limits: RpcServerOptions["limits"],
    unfinishedMessageMs = timers.unfinishedMessageMs,
    services?: RpcServerOptions["services"],
  ) => {
    const metrics = createMetrics({ service: "proxy" });
    const echo = await startEcho({
      metrics,
      ...(limits === undefined ? {} : { limits }),
      timers: { unfinishedMessageMs },
      ...(services && { services }),
    });
    const metric = async (name: string, labels?: Record<string, string>): Promise<number> => (await metrics.value(name, labels)) ?? 0;
    return { echo, metric, [Symbol.asyncDispose]: () => echo[Symbol.asyncDispose]() };
  };

  test("over the limit of the server the greediest connection loses its oldest; small ones go on", async () => {
    await using server = await start({ unfinishedBytesMax: 4 * MiB });
    const { echo, metric } = server;
    const modest = rawCall(open(echo));
    await taken(modest.stream, Buffer.concat([head(10), Buffer.from([0x0a, 8])]));
    const greedy = open(echo);
    const calls = Array.from({ length: 12 }, () => rawCall(greedy));
    const client = createRpcClient(EchoService, echo.address);
    let largest = 0;
    for (const { stream } of calls) {
      await taken(stream, Buffer.concat([head(2 * MiB), Buffer.alloc(MiB)]));
      largest = Math.max(largest, await metric("sluice_proxy_rpc_unfinished_bytes"));
      expect((await client.unary({ payload: new Uint8Array(100_000) }, { timeoutMs })).payload).toHaveLength(100_000);
    }
    expect(largest).toBeGreaterThan(2 * MiB);
    expect(largest).toBeLessThanOrEqual(4 * MiB);
    // Oldest first, with the catalogue's code; the last ones are still open.
    expect(await Promise.all(calls.slice(0, 8).map((one) => one.ended))).toEqual(Array(8).fill("8 MESSAGE_UNFINISHED"));
    expect(calls.at(-1)!.stream.closed).toBe(false);
    expect(await metric("sluice_proxy_rpc_unfinished_refused_total", { reason: "memory" })).toBeGreaterThanOrEqual(8);
    modest.stream.end(Buffer.from("modestly"));
    expect(await modest.ended).toBe("OK");
    client.close();
    for (const session of sessions) session.destroy();
    for (let i = 0; i < 200 && (await metric("sluice_proxy_rpc_unfinished_bytes")) > 0; i++) await new Promise((r) => setTimeout(r, 10));
    expect(await metric("sluice_proxy_rpc_unfinished_bytes")).toBe(0);
  });

  test("a connection has a limit of its own, and a stream that has answered ends with the same code", async () => {
    await using server = await start({ unfinishedConnectionBytesMax: 2 * MiB });
    const session = open(server.echo);
    const both = rawCall(session, "Both");
    const answered = once(both.stream, "data");
    both.stream.write(Buffer.concat([head(3), Buffer.from([0x0a, 1, 0x61])]));
    await answered;
    await taken(both.stream, Buffer.concat([head(4 * MiB), Buffer.alloc(MiB)]));
    const other = rawCall(session);
    await taken(other.stream, Buffer.concat([head(4 * MiB), Buffer.alloc(MiB + 100_000)]));
    expect(await both.ended).toBe("8 MESSAGE_UNFINISHED");
    expect(other.stream.closed).toBe(false);
  });

  test("single bytes are charged for what they cost", async () => {
    await using server = await start({ unfinishedConnectionBytesMax: 100_000 });
    const call = rawCall(open(server.echo));
    call.stream.write(head(MiB));
    for (let i = 0; i < 500 && !call.stream.closed; i++) {
      call.stream.write(Buffer.from([1]));
      await new Promise<void>((resolve) => setImmediate(resolve));
    }
    expect(await call.ended).toBe("8 MESSAGE_UNFINISHED");
  });

  test("a peer in the middle of a message does not hold up the end of the server", async () => {
    const { echo } = await start({});
    const call = rawCall(open(echo));
    await taken(call.stream, Buffer.concat([head(1_000), Buffer.alloc(10)]));
    await echo.server.stop();
    await call.ended;
  });

  test("a message that is not whole in time ends its stream, one that arrives slowly but in time does not", async () => {
    await using server = await start({}, 150);
    const session = open(server.echo);
    const slow = rawCall(session);
    const never = rawCall(session);
    never.stream.write(Buffer.concat([head(1_000), Buffer.alloc(10)]));
    for (let i = 0; i < 6; i++) {
      slow.stream.write(head(3));
      await new Promise((resolve) => setTimeout(resolve, 50));
      slow.stream.write(Buffer.from([0x0a, 1, 0x61]));
    }
    slow.stream.end();
    expect(await slow.ended).toBe("OK");
    expect(await never.ended).toBe("8 MESSAGE_UNFINISHED");
  });

  test("bytes that no handler reads have a limit: the stream that holds the most is given up, the others are read in the end", async () => {
    const gate = Promise.withResolvers<void>();
    const up = async (requests: AsyncIterable<unknown>) => {
      await gate.promise;
      let count = 0;
      for await (const _ of requests) count += 1;
      return { count };
    };
    await using server = await start({ unreadBytesMax: 4 * MiB }, 10_000, [implement(echoAccess, { ...echoHandlers, up })]);
    const session = open(server.echo);
    const message = Buffer.alloc(64 * 1024 + 5);
    message.writeUInt32BE(64 * 1024, 1);
    const calls = [17, 40, 20].map((messages) => ({ ...rawCall(session), messages }));
    for (const { stream, messages } of calls) for (let i = 0; i < messages; i++) await taken(stream, message);
    expect(await calls[1]!.ended).toBe("8 OVERLOADED");
    expect(await server.metric("sluice_proxy_rpc_unread_bytes")).toBeGreaterThan(MiB);
    expect(await server.metric("sluice_proxy_rpc_unfinished_refused_total", { reason: "unread" })).toBe(1);
    gate.resolve();
    const others = [calls[0]!, calls[2]!];
    for (const { stream } of others) stream.end();
    // Not a message of the service; it was read.
    expect(await Promise.all(others.map((one) => one.ended))).toEqual(["reset 0", "reset 0"]);
    expect(await server.metric("sluice_proxy_rpc_unread_bytes")).toBe(0);
  });

  test("what waits because no handler reads is not held against its sender", async () => {
    const gate = Promise.withResolvers<void>();
    const services = [
      implement(echoAccess, {
        ...echoHandlers,
        async up(requests) {
          await gate.promise;
          let count = 0;
          for await (const _ of requests) count += 1;
          return { count };
        },
      }),
    ];
    await using server = await start({}, 200, services);
    const call = rawCall(open(server.echo));
    // More than grpc-js takes in advance for a handler that does not read.
    for (let i = 0; i < 40; i++) await taken(call.stream, Buffer.concat([head(3), Buffer.from([0x0a, 1, 0x61])]));
    await taken(call.stream, Buffer.concat([head(3), Buffer.from([0x0a])]));
    await new Promise((resolve) => setTimeout(resolve, 700));
    expect(call.stream.closed).toBe(false);
    // Read to here, its sender has a whole time for the rest, whenever the last look was.
    gate.resolve();
    await new Promise((resolve) => setTimeout(resolve, 30));
    call.stream.end(Buffer.from([1, 0x61]));
    expect(await call.ended).toBe("OK");
  });
});

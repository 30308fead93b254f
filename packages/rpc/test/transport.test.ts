import { describe, expect, test } from "@jest/globals";
import { connect as connectHttp2, type ClientHttp2Session } from "node:http2";
import { connect, type Socket } from "node:net";
import { once } from "node:events";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { SeededRandom } from "@sluice/runtime/testing";
import { createRpcClient, Gathered, implement, rawCodec } from "../src/index.ts";
import { EchoService } from "./gen/sluice/rpctest/v1/echo_pb.ts";
import { EchoRequestSchema, EchoResponseSchema } from "./gen/sluice/rpctest/v1/echo_types_pb.ts";
import { echoAccess, echoHandlers, startEcho } from "./support.ts";

const timeoutMs = 10_000;

/** What a fresh connection is told, and its window after the first updates. */
async function settingsOf(address: string): Promise<{ session: ClientHttp2Session; streamWindow: number; connectionWindow: number }> {
  const session = connectHttp2(`http://${address}`);
  const [settings] = (await once(session, "remoteSettings")) as [{ initialWindowSize: number }];
  // The WINDOW_UPDATE of the connection follows the settings.
  for (let i = 0; i < 100 && (session.state.remoteWindowSize ?? 0) <= 65_535; i++) {
    await new Promise<void>((resolve) => void session.ping(() => resolve()));
  }
  return { session, streamWindow: settings.initialWindowSize, connectionWindow: session.state.remoteWindowSize ?? 0 };
}

describe("transport settings", () => {
  test("grpc-js still has the members through which the windows are raised", async () => {
    await using echo = await startEcho();
    expect(echo.server.transport).toEqual({ streamWindow: true, connectionHook: true });
    expect(echo.logger.find("rpc transport settings not applied")).toBeUndefined();
    const { session, streamWindow, connectionWindow } = await settingsOf(echo.address);
    expect(streamWindow).toBe(8 * 1024 * 1024);
    expect(connectionWindow).toBeGreaterThanOrEqual(8 * 1024 * 1024);
    expect(session.remoteSettings).toMatchObject({ maxConcurrentStreams: 256, maxHeaderListSize: 16 * 1024 });
    session.destroy();
  });

  test("the raised window lets a client send megabytes that no handler has read", async () => {
    const gate = Promise.withResolvers<void>();
    await using echo = await startEcho({
      services: [
        implement(echoAccess, {
          ...echoHandlers,
          async up() {
            await gate.promise;
            return {};
          },
        }),
      ],
    });
    const { session } = await settingsOf(echo.address);
    const stream = session.request({
      ":method": "POST",
      ":path": "/sluice.rpctest.v1.EchoService/Up",
      "content-type": "application/grpc",
      te: "trailers",
    });
    stream.on("error", () => undefined);
    stream.write(Buffer.alloc(4 * 1024 * 1024));
    while (stream.writableLength > 0) await new Promise<void>((resolve) => void session.ping(() => resolve()));
    expect(stream.state.localWindowSize ?? 0).toBeLessThanOrEqual(8 * 1024 * 1024);
    gate.resolve();
    session.destroy();
  });

  test("connections beyond the limit are closed, the others go on", async () => {
    await using echo = await startEcho({ limits: { connectionsMax: 2 } });
    const first = await settingsOf(echo.address);
    const second = await settingsOf(echo.address);
    const third = connect(echo.server.port, "127.0.0.1");
    third.on("error", () => undefined);
    await once(third, "close");
    await new Promise<void>((resolve) => void first.session.ping(() => resolve()));
    first.session.destroy();
    second.session.destroy();
  });

  test("a message over the limit is FRAME_TOO_LARGE and the server stays", async () => {
    await using echo = await startEcho({ limits: { receiveBytesMax: 100_000 } });
    const client = createRpcClient(EchoService, echo.address);
    await expect(client.unary({ payload: new Uint8Array(200_000) }, { timeoutMs })).rejects.toMatchObject({ code: "FRAME_TOO_LARGE" });
    expect((await client.unary({ text: "ok" }, { timeoutMs })).text).toBe("ok||");
    client.close();
  });
});

test("a reply over the limit ends the call on both sides", async () => {
  await using echo = await startEcho({ limits: { sendBytesMax: 50_000 } });
  const client = createRpcClient(EchoService, echo.address);
  const payload = new Uint8Array(60_000);
  await expect(client.unary({ payload }, { timeoutMs })).rejects.toMatchObject({ code: "FRAME_TOO_LARGE" });
  const down = client.down({ count: 1_000, payload }, { timeoutMs })[Symbol.asyncIterator]();
  await expect(down.next()).rejects.toMatchObject({ code: "FRAME_TOO_LARGE" });
  for (let i = 0; i < 100 && echo.server.openCalls > 0; i++) await new Promise((resolve) => setTimeout(resolve, 10));
  expect(echo.server.openCalls).toBe(0);
  client.close();
});

describe("hostile bytes", () => {
  const open = async (port: number): Promise<Socket> => {
    const socket = connect(port, "127.0.0.1");
    socket.on("error", () => undefined);
    await once(socket, "connect");
    return socket;
  };

  test("garbage, a huge header, a malformed message and a lying length leave the server serving", async () => {
    await using echo = await startEcho();
    const random = new SeededRandom(7);
    for (const bytes of [
      random.bytes(5_000),
      Buffer.from("GET / HTTP/1.1\r\n\r\n"),
      Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff"),
    ]) {
      const socket = await open(echo.server.port);
      socket.end(bytes);
      socket.resume();
      await once(socket, "close");
    }
    const session = connectHttp2(`http://${echo.address}`);
    session.on("error", () => undefined);
    const path = "/sluice.rpctest.v1.EchoService/Unary";
    const call = async (headers: Record<string, string>, body: Buffer): Promise<string> => {
      const stream = session.request({ ":method": "POST", ":path": path, "content-type": "application/grpc", te: "trailers", ...headers });
      stream.on("error", () => undefined);
      let status = "";
      for (const event of ["response", "trailers"]) {
        stream.on(event, (h: Record<string, string>) => (status = h["grpc-status"] ?? status));
      }
      stream.end(body);
      stream.resume();
      await new Promise<void>((resolve) => void stream.once("close", resolve));
      return status;
    };
    const framed = (length: number, body: Uint8Array): Buffer => {
      const head = Buffer.alloc(5);
      head.writeUInt32BE(length, 1);
      return Buffer.concat([head, body]);
    };
    // 3 = INVALID_ARGUMENT: the message does not parse.
    expect(await call({}, framed(3, Buffer.from([0xff, 0xff, 0xff])))).toBe("3");
    expect(await call({}, framed(0xffff_fff0, Buffer.from([1])))).toBe("8");
    expect(await call({ "x-big": "a".repeat(60_000) }, framed(0, Buffer.alloc(0)))).not.toBe("0");
    session.destroy();
    const client = createRpcClient(EchoService, echo.address);
    expect((await client.unary({ text: "alive" }, { timeoutMs })).text).toBe("alive||");
    client.close();
  });
});

describe("raw codec", () => {
  test("bytes pass as they are, and gathered parts arrive joined, in both directions", async () => {
    const codecs = { both: { request: rawCodec, response: rawCodec } } as const;
    await using echo = await startEcho({
      services: [
        implement(
          echoAccess,
          {
            ...echoHandlers,
            both: {
              async stream(call) {
                for await (const bytes of call) {
                  const request = fromBinary(EchoRequestSchema, bytes);
                  const reply = toBinary(EchoResponseSchema, create(EchoResponseSchema, { text: request.text, payload: request.payload }));
                  call.write(new Gathered([reply.subarray(0, 3), reply.subarray(3)]));
                }
              },
            },
          },
          { codecs },
        ),
      ],
    });
    const client = createRpcClient(EchoService, echo.address, { codecs });
    const payload = new SeededRandom(1).bytes(100_000);
    const sent = toBinary(EchoRequestSchema, create(EchoRequestSchema, { text: "raw", payload }));
    const both = client.both({ timeoutMs });
    both.write(new Gathered([sent.subarray(0, 10), sent.subarray(10)]));
    both.write(sent);
    both.end();
    let count = 0;
    for await (const bytes of both) {
      const reply = fromBinary(EchoResponseSchema, bytes);
      expect(reply.text).toBe("raw");
      expect(Buffer.compare(reply.payload, payload)).toBe(0);
      count++;
    }
    expect(count).toBe(2);
    client.close();
  });
});

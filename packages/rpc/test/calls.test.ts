import { describe, expect, test } from "@jest/globals";
import { createRpcClient, ChannelPool } from "../src/index.ts";
import { EchoService } from "./gen/sluice/rpctest/v1/echo_pb.ts";
import { startEcho } from "./support.ts";

const timeoutMs = 10_000;
const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

async function* texts(...all: string[]) {
  for (const text of all) yield { text };
}
async function collect<T>(source: AsyncIterable<T>): Promise<T[]> {
  const out: T[] = [];
  for await (const item of source) out.push(item);
  return out;
}

describe("calls of all four kinds", () => {
  test("unary carries messages, client id and trace context", async () => {
    await using echo = await startEcho();
    const client = createRpcClient(EchoService, echo.address, { clientId: "c-1" });
    const reply = await client.unary({ text: "hi", payload: new Uint8Array([1, 2, 3]) }, { timeoutMs, traceparent: trace });
    expect(reply.text).toBe(`hi|c-1|${trace}`);
    expect([...reply.payload]).toEqual([1, 2, 3]);
    client.close();
  });

  test("a malformed trace context is dropped", async () => {
    await using echo = await startEcho();
    const client = createRpcClient(EchoService, echo.address);
    expect((await client.unary({ text: "x" }, { timeoutMs, headers: { traceparent: "zz" } })).text).toBe("x||");
    client.close();
  });

  test("streams in each direction keep order and end", async () => {
    await using echo = await startEcho();
    const client = createRpcClient(EchoService, echo.address);
    const down = await collect(client.down({ text: "d", count: 500 }, { timeoutMs }));
    expect(down.map((m) => m.count)).toEqual(Array.from({ length: 500 }, (_, i) => i));
    expect(await client.up(texts("a", "b", "c"), { timeoutMs })).toMatchObject({ count: 3, text: "abc" });
    const both = client.both({ timeoutMs });
    for (const text of ["x", "y"]) both.write({ text });
    both.end();
    expect((await collect(both)).map((m) => m.text)).toEqual(["X", "Y"]);
    client.close();
  });

  test("event style of a duplex tells messages, then the end", async () => {
    await using echo = await startEcho();
    const client = createRpcClient(EchoService, echo.address);
    const both = client.both({ timeoutMs });
    const seen: string[] = [];
    const ended = new Promise<unknown>((resolve) => both.listen((m) => seen.push(m.text), resolve));
    for (const text of ["p", "q", "r"]) both.write({ text });
    both.end();
    expect(await ended).toBeUndefined();
    expect(seen).toEqual(["P", "Q", "R"]);
    client.close();
  });

  test("a pool shares one channel per address and closes it", async () => {
    await using echo = await startEcho();
    const pool = new ChannelPool();
    const a = createRpcClient(EchoService, pool.get(echo.address));
    const b = createRpcClient(EchoService, pool.get(echo.address));
    expect(a.channel).toBe(b.channel);
    await pool.get(echo.address).waitReady(timeoutMs);
    expect(a.channel.connected).toBe(true);
    a.close();
    expect((await b.unary({ text: "still" }, { timeoutMs })).text).toBe("still||");
    pool.close();
    await expect(b.unary({ text: "gone" }, { timeoutMs })).rejects.toHaveProperty("name", "SluiceError");
  });
});

import { describe, expect, test } from "@jest/globals";
import { codeOf } from "@sluice/core/model";
import { systemClock } from "@sluice/runtime";
import { checkHello, makeHello, makeProof, sameProof } from "../src/handshake.ts";
import { Connection } from "../src/connection.ts";
import { connectLink, encodeFrame, helloCodec, listenLinks, memoryPair, pingCodec, produceCodec, type LinkContext } from "../src/index.ts";
import { contextOf, identityOf, openPair, pairOf, until } from "./support/context.ts";

const secret = new TextEncoder().encode("the cluster's secret");
const helloOf = (context: LinkContext) => makeHello(context, "log");

describe("versions", () => {
  const hello = (versionMin: number, versionMax: number) => ({ ...helloOf(contextOf("proxy-1")), versionMin, versionMax });
  test.each([
    [1, 1, 1, 1, 1],
    [1, 3, 2, 5, 3],
    [2, 5, 1, 3, 3],
    [1, 4, 2, 3, 3],
  ])("%d to %d with %d to %d speak %d", (a, b, c, d, version) => {
    expect(checkHello(hello(a, b), hello(c, d))).toEqual({ version });
  });
  test("without a common version the refusal names both ranges", () => {
    const refused = checkHello(hello(1, 2), { ...hello(3, 4), memberId: "broker-1" });
    expect(refused).toMatchObject({ code: "VERSION_MISMATCH" });
    expect((refused as { message: string }).message).toMatch(/proxy-1 speaks 1 to 2.*broker-1 speaks 3 to 4/);
  });
  test("an upside-down range is no version", () => {
    expect(checkHello(hello(1, 9), hello(5, 4))).toMatchObject({ code: "VERSION_MISMATCH" });
  });
  test("wireVersionMax caps what is offered: below the lowest nobody connects", async () => {
    const pair = pairOf(contextOf("proxy-1", { wireVersionMax: 0 }), contextOf("broker-1"));
    await until(() => pair.ended.a !== undefined && pair.ended.b !== undefined, "both ended");
    expect(pair.ended.a).toMatchObject({ kind: "protocol", code: "VERSION_MISMATCH" });
    expect(pair.ended.b).toMatchObject({ kind: "protocol", code: "VERSION_MISMATCH" });
  });
});

describe("identity", () => {
  test("both learn who the other is", async () => {
    const pair = await openPair(
      contextOf("proxy-1"),
      contextOf("store-2", { identity: identityOf("store-2", { incarnation: "inc-7", zone: "c" }) }),
    );
    expect(pair.a.peer).toMatchObject({ memberId: "store-2", service: "segment-store", incarnation: "inc-7", zone: "c" });
    expect(pair.b.peer).toMatchObject({ memberId: "proxy-1", service: "proxy" });
    expect([pair.a.version, pair.b.version]).toEqual([1, 1]);
    pair.a.close();
  });
  test.each([
    ["cluster id", { clusterId: "cluster-two" }, /cluster-one generation 1.*cluster-two generation 1/],
    ["generation", { generation: 2 }, /cluster-one generation 1.*cluster-one generation 2/],
  ])("another %s is refused, naming both", async (_what, other, names) => {
    const pair = pairOf(contextOf("proxy-1", { identity: identityOf("proxy-1", other) }), contextOf("broker-1"));
    await until(() => pair.ended.a !== undefined && pair.ended.b !== undefined, "both ended");
    for (const reason of [pair.ended.a, pair.ended.b]) {
      expect(reason).toMatchObject({ kind: "protocol", code: "CLUSTER_MISMATCH" });
      expect(reason?.message).toMatch(names);
    }
  });
  test("a store that was formatted anew, or another member at the address, is refused by the connecting side", async () => {
    const server = await listenLinks(contextOf("store-1", { identity: identityOf("store-1", { incarnation: "new" }) }), {
      address: "127.0.0.1:0",
      handlers: { onFrame() {} },
      purposes: ["log"],
    });
    const connect = (expect: object, purpose: "log" | "bulk" = "log") =>
      connectLink(contextOf("broker-1"), { address: server.address, purpose, handlers: { onFrame() {} }, expect }).then(
        (link) => link.close(),
        (error: unknown) => codeOf(error),
      );
    expect(await connect({ memberId: "store-1", incarnation: "old" })).toBe("WRONG_INCARNATION");
    expect(await connect({ memberId: "store-2" })).toBe("INVALID_ARGUMENT");
    expect(await connect({ service: "broker" })).toBe("INVALID_ARGUMENT");
    expect(await connect({}, "bulk")).toBe("INVALID_ARGUMENT");
    expect(await connect({ memberId: "store-1", incarnation: "new" })).toBeUndefined();
    await server.close();
  });
});

describe("proof of membership", () => {
  test("with the same secret the link opens", async () => {
    const pair = await openPair(contextOf("proxy-1", { secret }), contextOf("broker-1", { secret }));
    pair.a.close();
  });
  test.each([
    ["a wrong secret", secret, new TextEncoder().encode("another")],
    ["no secret at the connecting side", undefined, secret],
    ["no secret at the accepting side", secret, undefined],
  ])("%s is refused", async (_what, a, b) => {
    const opened: string[] = [];
    const handlers = { onOpen: () => void opened.push("open") };
    const pair = pairOf(
      contextOf("proxy-1", a === undefined ? {} : { secret: a }),
      contextOf("broker-1", b === undefined ? {} : { secret: b }),
      {
        a: handlers,
        b: handlers,
      },
    );
    await until(() => pair.ended.a !== undefined && pair.ended.b !== undefined, "both ended");
    expect([pair.ended.a?.code, pair.ended.b?.code]).toEqual(["UNAUTHENTICATED", "UNAUTHENTICATED"]);
    expect(opened).toEqual([]);
  });
  test("a proof is bound to both hellos and to the side that made it", () => {
    const [x, y, z] = [1, 2, 3].map((n) => new Uint8Array(60).fill(n)) as [Uint8Array, Uint8Array, Uint8Array];
    const proof = makeProof(secret, "connect", x, y);
    expect(sameProof(proof, makeProof(secret, "connect", x, y))).toBe(true);
    for (const other of [makeProof(secret, "accept", x, y), makeProof(secret, "connect", z, y), makeProof(secret, "connect", x, z)])
      expect(sameProof(proof, other)).toBe(false);
    expect(sameProof(proof, proof.subarray(1))).toBe(false);
  });
});

describe("out of order before the handshake is complete", () => {
  const hello = () => encodeFrame(helloCodec, { ...helloOf(contextOf("proxy-1", { secret })) });
  const produce = encodeFrame(produceCodec, produceCodec.create(), 1);
  test.each([
    ["a frame before hello", () => [produce]],
    ["a ping before hello", () => [encodeFrame(pingCodec, {})]],
    ["hello twice", () => [hello(), hello()]],
    ["a frame before the proof", () => [hello(), produce]],
  ])("%s closes the link and reaches no handler", async (_what, frames) => {
    const seen: string[] = [];
    let code = "";
    const accept = new Connection({
      context: contextOf("broker-1", { secret }),
      side: "accept",
      address: "memory",
      purpose: "log",
      handlers: { onFrame: () => void seen.push("frame"), onOpen: () => void seen.push("open") },
      onFailed: (reason) => (code = reason.code),
    });
    const deaf = { target: () => Buffer.alloc(0), onRead() {}, onChunk() {}, onConnect() {}, onClose() {} };
    const [client, server] = memoryPair(systemClock, deaf, accept);
    accept.attach(server, 1_000);
    for (const frame of frames()) client.write([frame]);
    await until(() => code !== "", "refused");
    expect(code).toBe("MALFORMED_FRAME");
    expect(seen).toEqual([]);
  });
});

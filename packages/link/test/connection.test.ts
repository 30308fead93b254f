import { afterEach, describe, expect, test } from "@jest/globals";
import { mkdtemp, rm } from "node:fs/promises";
import { connect as netConnect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { timers } from "@sluice/core/model";
import { systemClock } from "@sluice/runtime";
import {
  appendCodec,
  appendedCodec,
  call,
  connectLink,
  dataCodec,
  EMPTY,
  encodeFrame,
  type Frame,
  FrameType,
  type Link,
  LinkPool,
  type LinkState,
  listenLinks,
  parseAddress,
  produceCodec,
  producedCodec,
  readCodec,
  type LinkHandlers,
  type LinkServer,
  type RequestFailure,
} from "../src/index.ts";
import { slabReadsWork } from "../src/read-path.ts";
import { contextOf, eventually, openPair, topic, until } from "./support/context.ts";

const servers: LinkServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});
const answered = producedCodec.create();
const produce = { ...produceCodec.create(), topicId: topic };
/** Answers produce with the first byte of the payload as base offset. */
const echo: LinkHandlers = {
  onFrame(link, frame) {
    if (frame.type !== FrameType.produce) return;
    produceCodec.decode(frame, produceCodec.create());
    answered.baseOffset = frame.payload[0] ?? 0;
    answered.lastOffset = frame.payload.length;
    link.send(producedCodec, frame.correlation, answered);
    link.release(frame.creditBytes);
  },
};
const quiet: LinkHandlers = { onFrame() {} };
async function serve(address: string, handlers: LinkHandlers, more: object = {}, options: object = {}): Promise<LinkServer> {
  const server = await listenLinks(contextOf("broker-1", more), { address, handlers, ...options });
  servers.push(server);
  return server;
}

test("this version of Node.js reads into slabs on both sides", async () => {
  expect(await slabReadsWork(systemClock)).toBe(true);
});

describe.each([
  ["slab", "tcp"],
  ["data", "tcp"],
  ["slab", "unix"],
  ["data", "unix"],
] as const)("reading by %s over %s", (readPath, kind) => {
  test("frames of all sizes come back whole, counted on both sides", async () => {
    const dir = await mkdtemp(join(tmpdir(), "link-"));
    const server = await serve(kind === "tcp" ? "127.0.0.1:0" : `unix:${dir}/s`, echo, { readPath });
    const link = await connectLink(contextOf("proxy-1", { readPath }), { address: server.address, purpose: "log", handlers: quiet });
    const sizes = [0, 1, 100, 1024, 1025, 4095, 4096, 65_536, 70_001, 1 << 20, 3 << 20, 5];
    const answers = await Promise.all(
      sizes.map((n, i) => call(link, produceCodec, produce, producedCodec, 5_000, new Uint8Array(n).fill(i + 1))),
    );
    expect(answers.map((a) => a.message.lastOffset)).toEqual(sizes);
    expect(answers.map((a) => a.message.baseOffset)).toEqual(sizes.map((n, i) => (n === 0 ? 0 : i + 1)));
    const [served] = [...server.links] as [Link];
    await until(() => link.counters.inFlightBytes < 4 << 20, "credit came back");
    expect(served.counters.bytesIn).toBeLessThanOrEqual(link.counters.bytesOut);
    expect(link.counters.framesIn).toBeGreaterThanOrEqual(sizes.length);
    expect(link.counters.writes).toBeLessThan(sizes.length);
    link.close();
    await server.close();
    await rm(dir, { recursive: true });
  });
});

describe("frames of a turn", () => {
  test("leave in one write", async () => {
    const pair = await openPair(contextOf("proxy-1"), contextOf("broker-1"), { b: echo });
    const before = pair.a.counters.writes;
    let done = 0;
    for (let i = 0; i < 500; i++) pair.a.request(produceCodec, produce, new Uint8Array(2000), 1000, () => done++);
    await until(() => done === 500, "all answered");
    expect(pair.a.counters.writes - before).toBeLessThanOrEqual(3);
    pair.a.close();
  });
  test("onReadEnd comes after all frames of a read", async () => {
    const seen: string[] = [];
    const pair = await openPair(contextOf("proxy-1"), contextOf("broker-1"), {
      b: { onFrame: () => void seen.push("frame"), onReadEnd: () => void seen.push("end") },
    });
    seen.length = 0;
    for (let i = 0; i < 3; i++) pair.a.send(produceCodec, 1, produce, new Uint8Array(10));
    await until(() => seen.length >= 4, "read");
    expect(seen).toEqual(["frame", "frame", "frame", "end"]);
    pair.a.close();
  });
});

describe("requests", () => {
  test("fail at the end of the link: unknown when handed to the socket, not sent when still waiting for credit", async () => {
    const held: Frame[] = [];
    const pair = await openPair(contextOf("proxy-1"), contextOf("broker-1", { windowBytes: 10_000 }), {
      b: { onFrame: (_l, f) => void held.push(f) },
    });
    const failures: (RequestFailure | undefined)[] = [];
    for (let i = 0; i < 3; i++)
      pair.a.request(produceCodec, produce, new Uint8Array(6_000), 60_000, (_f, failure) => failures.push(failure));
    await until(() => held.length === 1, "the first arrived");
    pair.b.close("SHUTTING_DOWN", "going");
    await until(() => failures.length === 3, "all failed");
    expect(failures.map((f) => [f?.code, f?.sent])).toEqual([
      ["OUTCOME_UNKNOWN", true],
      ["LINK_DOWN", false],
      ["LINK_DOWN", false],
    ]);
    expect(pair.ended.a).toMatchObject({ kind: "reset", code: "SHUTTING_DOWN", message: "going" });
    expect(pair.ended.b).toMatchObject({ kind: "local" });
  });
  test("in the turn of the close they were not sent", async () => {
    const pair = await openPair(contextOf("proxy-1"), contextOf("broker-1"));
    let failure: RequestFailure | undefined;
    pair.a.request(produceCodec, produce, EMPTY, 1_000, (_f, x) => (failure = x));
    pair.b.close();
    expect(pair.a.request(produceCodec, produce, EMPTY, 1_000, () => {})).toBe(true);
    pair.a.flush();
    await until(() => failure !== undefined, "failed");
    expect(failure).toMatchObject({ code: "OUTCOME_UNKNOWN", sent: true });
    expect(pair.a.request(produceCodec, produce, EMPTY, 1_000, () => {})).toBe(false);
    expect(pair.a.send(produceCodec, 1, produce)).toBe(false);
  });
  test("time out at their deadline; the late answer's credit goes back; one that waits is withdrawn", async () => {
    let hold: { link: Link; correlation: number; creditBytes: number } | undefined;
    let frames = 0;
    const pair = await openPair(contextOf("proxy-1"), contextOf("store-1", { windowBytes: 1000 }), {
      b: {
        onFrame(link, frame) {
          frames++;
          hold ??= { link, correlation: frame.correlation, creditBytes: frame.creditBytes };
          link.release(frames === 1 ? 0 : frame.creditBytes);
        },
      },
    });
    const failures: (RequestFailure | undefined)[] = [];
    const read = { ...readCodec.create(), topicId: topic };
    pair.a.request(readCodec, read, new Uint8Array(900), 20, (_f, failure) => failures.push(failure));
    pair.a.request(readCodec, read, new Uint8Array(900), 20, (_f, failure) => failures.push(failure));
    await eventually(() => failures.length === 2, "timed out");
    expect(failures.map((f) => [f?.code, f?.sent])).toEqual([
      ["TIMED_OUT", true],
      ["TIMED_OUT", false],
    ]);
    hold?.link.send(dataCodec, hold.correlation, dataCodec.create(), new Uint8Array(5_000));
    hold?.link.release(hold.creditBytes);
    // The withdrawn frame must not arrive, the next one must.
    let third = false;
    pair.a.request(readCodec, read, new Uint8Array(700), 5_000, () => (third = true));
    await until(() => frames === 2, "the third request arrived");
    pair.b.sendError(3, FrameType.read, "UNKNOWN_SEGMENT", "no such segment");
    await until(() => third, "answered");
    expect(pair.a.closed).toBe(false);
    pair.a.close();
  });
  test("an error frame answers its request", async () => {
    const pair = await openPair(contextOf("proxy-1"), contextOf("broker-1"), {
      b: { onFrame: (link, frame) => link.sendError(frame.correlation, frame.type, "NOT_OWNER", "moved") },
    });
    await expect(call(pair.a, produceCodec, produce, producedCodec, 1_000)).rejects.toMatchObject({ code: "NOT_OWNER", message: "moved" });
    pair.a.close();
  });
});

describe("what the peer must not send", () => {
  test("an unknown frame type is answered with an error frame and the link goes on", async () => {
    const errors: number[] = [];
    const pair = await openPair(contextOf("proxy-1"), contextOf("broker-1"), {
      a: { onFrame: (_link, frame) => void errors.push(frame.type, frame.correlation) },
      b: echo,
    });
    pair.a.send({ ...appendedCodec, type: 200 }, 77, appendedCodec.create());
    await until(() => errors.length > 0, "error frame");
    expect(errors).toEqual([FrameType.error, 77]);
    expect((await call(pair.a, produceCodec, produce, producedCodec, 1_000, new Uint8Array([9]))).message.baseOffset).toBe(9);
    pair.a.close();
  });
  test("a header that a handler cannot decode closes the link with MALFORMED_FRAME on both sides", async () => {
    const pair = await openPair(contextOf("proxy-1"), contextOf("broker-1"), { b: echo });
    pair.a.send({ ...appendedCodec, type: FrameType.produce }, 1, appendedCodec.create());
    await until(() => pair.ended.a !== undefined && pair.ended.b !== undefined, "ended");
    expect(pair.ended.b).toMatchObject({ kind: "protocol", code: "MALFORMED_FRAME" });
    expect(pair.ended.a).toMatchObject({ kind: "protocol", code: "MALFORMED_FRAME" });
  });
  test("a frame that can never be sent is the caller's error", async () => {
    const pair = await openPair(contextOf("proxy-1"), contextOf("broker-1"));
    expect(() => pair.a.send(appendCodec, 0, appendCodec.create(), new Uint8Array(16 << 20))).toThrow(
      expect.objectContaining({ code: "FRAME_TOO_LARGE" }),
    );
    pair.a.close();
  });
});

describe("server", () => {
  test("a connection that says nothing is ended at the hello deadline, others are served", async () => {
    const server = await serve("127.0.0.1:0", echo, { timers: { ...timers, linkHelloTimeoutMs: 40 } }, { handshakesMax: 2 });
    const at = parseAddress(server.address) as { host: string; port: number };
    let ended = 0;
    const sockets = [1, 2, 3].map(() =>
      netConnect(at)
        .on("close", () => ended++)
        .on("error", () => {})
        .resume(),
    );
    await eventually(() => ended === 3, "silent and surplus connections ended");
    expect(server.totals.refused).toBe(3);
    const link = await connectLink(contextOf("proxy-1"), { address: server.address, purpose: "log", handlers: quiet });
    expect(server.totals.accepted).toBe(1);
    link.close();
    for (const s of sockets) s.destroy();
  });
  test("close ends its links with SHUTTING_DOWN and frees the address", async () => {
    const server = await serve("127.0.0.1:0", echo);
    let reason = "";
    await connectLink(contextOf("proxy-1"), {
      address: server.address,
      purpose: "log",
      handlers: { ...quiet, onClose: (_l, r) => (reason = `${r.kind} ${r.code}`) },
    });
    await server.close();
    await eventually(() => reason !== "", "told");
    expect(reason).toBe("reset SHUTTING_DOWN");
    await serve(server.address, echo);
  });
  test("nobody there is `refused`", async () => {
    const server = await serve("127.0.0.1:0", echo);
    await server.close();
    const failed = connectLink(contextOf("proxy-1"), { address: server.address, purpose: "log", handlers: quiet });
    await expect(failed).rejects.toMatchObject({ code: "LINK_DOWN", cause: { kind: "refused" } });
  });
  test("an address in use, and one that is no address", async () => {
    const server = await serve("127.0.0.1:0", echo);
    await expect(serve(server.address, echo)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    for (const bad of ["x", ":1", "h:", "h:99999", "unix:rel"])
      expect(() => parseAddress(bad)).toThrow(expect.objectContaining({ code: "INVALID_ARGUMENT" }));
    expect(parseAddress("[::1]:7")).toEqual({ kind: "tcp", host: "::1", port: 7 });
  });
});

describe("pool", () => {
  test("keeps one link per address and purpose, tells at once when it ends, and connects again", async () => {
    let server = await serve("127.0.0.1:0", echo);
    const states: LinkState[] = [];
    const pool = new LinkPool(contextOf("proxy-1"), { handlersFor: () => quiet, onState: (state) => states.push(state) });
    const peer = pool.get(server.address, "log");
    expect(pool.get(server.address, "log")).toBe(peer);
    expect(pool.get(server.address, "bulk")).not.toBe(peer);
    const first = await peer.ready(2_000);
    await server.close();
    await eventually(() => states.some((s) => s.kind === "down" && s.reason.kind === "refused"), "seen as refused");
    expect(peer.link).toBeUndefined();
    await expect(peer.ready(1)).rejects.toMatchObject({ code: "LINK_DOWN" });
    server = await serve(server.address, echo);
    const second = await peer.ready(5_000);
    expect(second).not.toBe(first);
    expect((await call(second, produceCodec, produce, producedCodec, 1_000, new Uint8Array([4]))).message.baseOffset).toBe(4);
    pool.close();
    await expect(peer.ready(1)).rejects.toMatchObject({ code: "SHUTTING_DOWN" });
  });
});

test("bytes after a closing link do not reach handlers", async () => {
  let frames = 0;
  const pair = await openPair(contextOf("proxy-1"), contextOf("broker-1"), {
    b: {
      onFrame(link) {
        frames++;
        link.close();
      },
    },
  });
  pair.a.send(produceCodec, 1, produce);
  pair.a.send(produceCodec, 2, produce);
  await until(() => pair.ended.a !== undefined, "ended");
  expect(frames).toBe(1);
  expect(encodeFrame(produceCodec, produce).length).toBe(12 + 44);
});

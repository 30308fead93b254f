import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { connect as netConnect } from "node:net";
import { errorCatalogue, isSluiceError, limits } from "@sluice/core/model";
import { type Logger, silentLogger, systemClock } from "@sluice/runtime";
import { Connection } from "../src/connection.ts";
import { makeHello } from "../src/handshake.ts";
import {
  appendCodec,
  appendedCodec,
  type Codec,
  connectLink,
  creditCodec,
  dataCodec,
  encodeFrame,
  errorCodec,
  FrameReader,
  FrameType,
  helloCodec,
  type LinkCloseReason,
  type LinkHandlers,
  listenLinks,
  memoryPair,
  parseAddress,
  pingCodec,
  produceCodec,
  producedCodec,
  readCodec,
  subscribeCodec,
  tailCodec,
  unsubscribeCodec,
} from "../src/index.ts";
import { contextOf, eventually, until } from "./support/context.ts";

const codecs: Codec<never>[] = [
  appendCodec,
  appendedCodec,
  readCodec,
  dataCodec,
  subscribeCodec,
  unsubscribeCodec,
  tailCodec,
  produceCodec,
  producedCodec,
  creditCodec,
  errorCodec,
  helloCodec,
  pingCodec,
] as unknown as Codec<never>[];
const byType = new Map(codecs.map((c) => [c.type, c]));
/** Decodes every frame as a service would. */
const decoding: LinkHandlers = {
  onFrame(link, frame) {
    const codec = byType.get(frame.type);
    codec?.decode(frame, codec.create());
    link.release(frame.creditBytes);
  },
};
const allowed = new Set([
  "MALFORMED_FRAME",
  "FRAME_TOO_LARGE",
  "OVERLOADED",
  "VERSION_MISMATCH",
  "CLUSTER_MISMATCH",
  "UNAUTHENTICATED",
  "LINK_DOWN",
]);

const validFrame = fc
  .tuple(fc.constantFrom(...codecs), fc.integer({ min: 0, max: 0xffff_ffff }), fc.uint8Array({ maxLength: 200 }))
  .map(([codec, correlation, payload]) => encodeFrame(codec, codec.create(), correlation, payload));
const randomFrame = fc
  .record({
    length: fc.oneof(
      fc.integer({ min: 0, max: 300 }),
      fc.constantFrom(0xffff_ffff, 0x7fff_ffff, limits.linkFrameBytesMax, limits.linkPreHelloFrameBytesMax),
    ),
    type: fc.integer({ min: 0, max: 255 }),
    headerBytes: fc.oneof(fc.integer({ min: 0, max: 200 }), fc.constantFrom(0xffff, limits.linkHeaderBytesMax)),
    rest: fc.uint8Array({ maxLength: 300 }),
  })
  .map(({ length, type, headerBytes, rest }) => {
    const bytes = Buffer.alloc(12 + rest.length);
    bytes.writeUInt32LE(length, 0);
    bytes.writeUInt8(type, 4);
    bytes.writeUInt16LE(headerBytes, 6);
    bytes.set(rest, 12);
    return bytes as Uint8Array;
  });
const flipped = fc.tuple(validFrame, fc.nat(), fc.integer({ min: 0, max: 7 })).map(([frame, at, bit]) => {
  const copy = frame.slice();
  const i = at % copy.length;
  copy[i] = (copy[i] as number) ^ (1 << bit);
  return copy;
});
const truncated = fc.tuple(validFrame, fc.nat()).map(([frame, n]) => frame.subarray(0, n % frame.length));
const hostile = fc.array(fc.oneof(validFrame, validFrame, randomFrame, flipped, truncated, fc.uint8Array({ maxLength: 100 })), {
  minLength: 1,
  maxLength: 12,
});

describe("hostile bytes", () => {
  test("at the frame reader and the codecs: a documented code or nothing, memory within 4 times the bytes received", () => {
    fc.assert(
      fc.property(hostile, fc.boolean(), (parts, full) => {
        const stream = Buffer.concat(parts);
        let held = 0;
        const reader = new FrameReader((frame) => {
          held += frame.payload.length;
          const codec = byType.get(frame.type);
          codec?.decode(frame, codec.create());
        });
        if (full) reader.allowFullFrames();
        try {
          for (let at = 0; at < stream.length; at += 61) reader.push(stream.subarray(at, at + 61));
        } catch (error) {
          if (!isSluiceError(error)) throw error;
          expect(allowed.has(error.code)).toBe(true);
        }
        expect(held).toBeLessThanOrEqual(stream.length);
        expect(reader.target().buffer.byteLength).toBeLessThanOrEqual(4 * stream.length + 2 * limits.slabBytes);
      }),
      { numRuns: 2_000 },
    );
  });

  test("in every state of the handshake: the link ends with a documented code or goes on, and nothing is thrown", async () => {
    const secret = new Uint8Array(16).fill(7);
    const peers = [contextOf("proxy-1"), contextOf("proxy-1", { secret })];
    // A hostile peer may end the link with any code, INTERNAL too. What must not happen is that this side fails: it would log an error.
    const failures: string[] = [];
    const logger: Logger = { ...silentLogger, error: (event) => void failures.push(event), child: () => logger };
    await fc.assert(
      fc.asyncProperty(hostile, fc.boolean(), fc.boolean(), async (parts, withSecret, helloFirst) => {
        const ended: LinkCloseReason[] = [];
        const peer = peers[withSecret ? 1 : 0] as (typeof peers)[0];
        const connection = new Connection({
          context: contextOf("broker-1", withSecret ? { secret, logger } : { logger }),
          side: "accept",
          address: "memory",
          purpose: "log",
          handlers: { ...decoding, onClose: (_l, r) => void ended.push(r) },
          onFailed: (r) => void ended.push(r),
        });
        const deaf = { target: () => Buffer.alloc(0), onRead() {}, onChunk() {}, onConnect() {}, onClose() {} };
        const [client, server] = memoryPair(systemClock, deaf, connection);
        connection.attach(server, 60_000);
        let delivered = false;
        if (helloFirst) client.write([encodeFrame(helloCodec, makeHello(peer, "log"))]);
        client.write(parts);
        systemClock.afterTurn(() => (delivered = true));
        await until(() => delivered, "delivered");
        if (!connection.closed) connection.close("CANCELLED");
        expect(ended).toHaveLength(1);
        expect(Object.hasOwn(errorCatalogue, ended[0]?.code ?? "")).toBe(true);
        expect(
          allowed.has(ended[0]?.code ?? "") || ended[0]?.kind === "local" || ended[0]?.kind === "protocol" || ended[0]?.kind === "reset",
        ).toBe(true);
        expect(failures).toEqual([]);
        client.destroy();
      }),
      {
        numRuns: 400,
        examples: [
          // The peer itself says INTERNAL while this side waits for its proof.
          [[encodeFrame(errorCodec, errorCodec.create(), 0, new Uint8Array(), 1)], true, true],
        ],
      },
    );
  });

  test("at a listening server: 40 hostile connections, memory bounded, others are served", async () => {
    const server = await listenLinks(contextOf("broker-1"), { address: "127.0.0.1:0", handlers: decoding });
    const at = parseAddress(server.address) as { host: string; port: number };
    const before = process.memoryUsage().arrayBuffers;
    const length = Buffer.alloc(12);
    length.writeUInt32LE(0x7fff_ffff, 0);
    const hello = encodeFrame(helloCodec, makeHello(contextOf("proxy-1"), "log"));
    const large = Buffer.alloc(12);
    large.writeUInt32LE(limits.linkFrameBytesMax - 4, 0);
    large.writeUInt8(FrameType.produce, 4);
    const lines: Buffer[] = [];
    const sockets = Array.from({ length: 40 }, (_, i) => {
      const socket = netConnect(at)
        .on("error", () => {})
        .on("data", (d: Buffer) => void lines.push(d));
      if (i % 2 === 0) socket.write(length);
      else socket.write(Buffer.concat([hello, large]));
      return socket;
    });
    await eventually(() => server.totals.refused === 20 && server.totals.accepted === 20, "seen");
    // Twenty opened and announced 16 MiB each: 2 MiB at most are kept for each until bytes come.
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(20 * 2 * limits.slabBytes + 32 * 1024 * 1024);
    const link = await connectLink(contextOf("proxy-2"), { address: server.address, purpose: "log", handlers: decoding });
    expect(link.closed).toBe(false);
    expect(Buffer.concat(lines).includes("limit 65536")).toBe(true);
    for (const s of sockets) s.destroy();
    link.close();
    await server.close();
  });
});

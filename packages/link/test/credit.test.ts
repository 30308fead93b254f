import { describe, expect, test } from "@jest/globals";
import * as fc from "fast-check";
import { ReceiveCredit, SendCredit } from "../src/credit.ts";
import { creditCodec, encodeFrame, producedCodec, produceCodec, tailCodec, type Link } from "../src/index.ts";
import { contextOf, openPair, topic, until } from "./support/context.ts";

const produce = { ...produceCodec.create(), topicId: topic };
const KiB = 1024;

describe("credit of a link", () => {
  test("a reader that stops bounds what its sender sends and keeps", async () => {
    let received = 0;
    const held: number[] = [];
    const pair = await openPair(contextOf("proxy-1", { queueBytesMax: 128 * KiB }), contextOf("broker-1", { windowBytes: 64 * KiB }), {
      b: {
        onFrame(_link, frame) {
          received += frame.creditBytes;
          held.push(frame.creditBytes);
        },
      },
    });
    let taken = 0;
    for (let i = 0; i < 1000; i++) if (pair.a.send(produceCodec, i + 1, produce, new Uint8Array(8 * KiB))) taken++;
    await until(() => pair.a.counters.queuedBytes <= 128 * KiB && received > 0, "settled");
    for (let i = 0; i < 20; i++) await until(() => true, "turn");
    expect(received).toBeLessThanOrEqual(64 * KiB);
    expect(pair.a.counters.queuedBytes).toBeLessThanOrEqual(128 * KiB);
    expect(taken).toBeLessThan(30);
    expect(pair.a.writable).toBe(false);
    // Reading on, everything that was taken arrives.
    let arrived = 0;
    for (; arrived < taken; arrived++) {
      await until(() => held.length > 0, `frame ${arrived}`);
      pair.b.release(held.shift() as number);
    }
    pair.a.close();
  });
  test("onWritable comes once credit is back", async () => {
    let writable = 0;
    const held: [Link, number][] = [];
    const pair = await openPair(contextOf("proxy-1"), contextOf("broker-1", { windowBytes: 10 * KiB }), {
      a: { onWritable: () => void writable++ },
      b: { onFrame: (link, frame) => void held.push([link, frame.creditBytes]) },
    });
    expect(pair.a.writable).toBe(true);
    pair.a.send(produceCodec, 1, produce, new Uint8Array(11 * KiB));
    expect(pair.a.writable).toBe(false);
    await until(() => held.length === 1, "arrived");
    expect(writable).toBe(0);
    for (const [link, bytes] of held) link.release(bytes);
    await until(() => writable === 1, "writable");
    expect(pair.a.writable).toBe(true);
    pair.a.close();
  });
  test.each([
    ["far larger than the window", 300 * KiB],
    ["as large as the window", 10 * KiB],
    ["a little under the window", 9 * KiB],
  ])("a frame %s passes although small releases are kept back", async (_what, bytes) => {
    const sizes: number[] = [];
    const pair = await openPair(contextOf("proxy-1"), contextOf("broker-1", { windowBytes: 10 * KiB }), {
      b: {
        onFrame(link, frame) {
          sizes.push(frame.payload.length);
          link.release(frame.creditBytes);
        },
      },
    });
    const expected: number[] = [];
    for (const n of [100, bytes, 1500, bytes, bytes, 2000, 10]) {
      expect(pair.a.send(produceCodec, 1, produce, new Uint8Array(n))).toBe(true);
      expected.push(n);
    }
    await until(() => sizes.length === expected.length, "all arrived");
    expect(sizes).toEqual(expected);
    pair.a.close();
  });
  test("answers pass frames that wait for credit", async () => {
    const seen: number[] = [];
    const pair = await openPair(contextOf("proxy-1", { windowBytes: KiB }), contextOf("broker-1"), {
      a: { onFrame: (_l, frame) => void seen.push(frame.type) },
      b: {
        onFrame(link, frame) {
          for (let i = 0; i < 3; i++) link.send(tailCodec, 5, tailCodec.create(), new Uint8Array(2 * KiB));
          link.send(producedCodec, frame.correlation, producedCodec.create());
        },
      },
    });
    let answered = false;
    pair.a.request(produceCodec, produce, new Uint8Array(1), 5_000, () => (answered = true));
    await until(() => answered, "the answer");
    expect(seen).toHaveLength(1);
    pair.a.close();
  });
  test("a sender that ignores credit, and one that invents it, are closed", async () => {
    const pair = await openPair(contextOf("proxy-1"), contextOf("broker-1", { windowBytes: 4 * KiB }));
    // Past the credit: straight bytes under the sender's accounting.
    const frame = encodeFrame(produceCodec, produce, 1, new Uint8Array(3 * KiB));
    pair.b.onChunk(Buffer.concat([frame, frame]));
    expect(pair.ended.b).toMatchObject({ kind: "protocol", code: "OVERLOADED" });
    const other = await openPair(contextOf("proxy-1"), contextOf("broker-1"));
    other.a.onChunk(encodeFrame(creditCodec, { released: 10_000 }));
    expect(other.ended.a).toMatchObject({ kind: "protocol", code: "MALFORMED_FRAME" });
  });
  test("releasing what was not received is a fault of the caller", async () => {
    const pair = await openPair(contextOf("proxy-1"), contextOf("broker-1"));
    expect(() => pair.a.release(1)).toThrow(RangeError);
    pair.a.close();
  });
});

test("credit model: whatever the sizes and releases, both ends agree, in flight is bounded, and nothing gets stuck", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 5000 }),
      fc.array(fc.record({ send: fc.integer({ min: 1, max: 9000 }), release: fc.double({ min: 0, max: 1, noNaN: true }) }), {
        minLength: 1,
        maxLength: 60,
      }),
      (window, steps) => {
        const sender = new SendCredit(window);
        const receiver = new ReceiveCredit(window);
        const tell = (): void => {
          if (!receiver.due) return;
          receiver.told = receiver.released;
          receiver.wanted = false;
          expect(sender.onReleased(receiver.told)).toBe(true);
        };
        for (const { send, release } of steps) {
          if (sender.fits(send)) {
            sender.sent += send;
            expect(receiver.onReceived(send)).toBe(true);
          } else if (sender.mustAsk(send)) receiver.wanted = true;
          expect(sender.inFlight).toBeLessThanOrEqual(Math.max(window, 9000));
          receiver.release(Math.floor((receiver.received - receiver.released) * release));
          tell();
        }
        // The reader takes everything: the next frame of any size goes, after at most one more question.
        receiver.release(receiver.received - receiver.released);
        tell();
        if (!sender.fits(9000)) {
          expect(sender.mustAsk(9000)).toBe(true);
          receiver.wanted = true;
          tell();
        }
        expect(sender.fits(9000)).toBe(true);
      },
    ),
    { numRuns: 300 },
  );
});

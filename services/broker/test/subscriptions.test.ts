import { describe, expect, test } from "@jest/globals";
import { crc32c, nativeCodecs } from "@sluice/codec";
import { BatchBuilder, decodeAnnotations, stampBatch } from "@sluice/core/log";
import { epoch, errorNumber } from "@sluice/core/model";
import type { CommittedEffect, TailMark } from "@sluice/core/partition";
import { payloadLength, type Link, type Payload, type TailMessage } from "@sluice/link";
import { createMetrics } from "@sluice/runtime";
import { createBrokerMetrics } from "../src/metrics.ts";
import { Subscriptions } from "../src/subscriptions.ts";

type Sent = TailMessage & { readonly bytes: number };
/** A link that takes frames while `open` is true. */
function fakeLink(): { link: Link; sent: Sent[]; open: boolean } {
  const state = { sent: [] as Sent[], open: true, link: undefined as unknown as Link };
  state.link = {
    peer: { instance: "p" },
    address: "a",
    closed: false,
    get writable() {
      return state.open;
    },
    send: (_codec: unknown, _number: number, message: TailMessage, payload: Payload = []) => {
      if (!state.open) return false;
      state.sent.push({ ...message, bytes: payloadLength(payload) });
      return true;
    },
  } as unknown as Link;
  return state;
}
function batchAt(offset: number, records: number): Uint8Array {
  const builder = new BatchBuilder({ crc32c, codecs: nativeCodecs });
  for (let i = 0; i < records; i += 1) builder.tryAppend(1, null, new Uint8Array([i]));
  const bytes = builder.close();
  stampBatch(bytes, 0, offset, 1);
  return bytes;
}
const mark = (committed: number): TailMark => ({
  epoch: epoch(1),
  segment: { epoch: epoch(1), k: 0 },
  segmentBase: 0,
  committed,
  lastStable: committed,
  logStart: 0,
});
const committed = (first: number, ...sizes: number[]): CommittedEffect => {
  let at = first;
  const lasts: number[] = [];
  const runs = sizes.map((n) => {
    const bytes = batchAt(at, n);
    at += n;
    lasts.push(at - 1);
    return bytes;
  });
  return {
    kind: "committed",
    first,
    last: at - 1,
    runs,
    lasts,
    handles: runs.map(() => undefined),
    trace: undefined,
    tracedAt: -1,
    mark: mark(at - 1),
  };
};
const subscriptions = (): Subscriptions =>
  new Subscriptions(
    createBrokerMetrics(createMetrics({ service: "broker" }), {
      partitions: () => 0,
      serving: () => 0,
      waiting: () => 0,
      metadataWaiting: () => 0,
      starved: () => 0,
      subscriptions: () => 0,
    }),
  );

describe("tail subscriptions", () => {
  test("a new subscriber learns where the log is, then gets what was committed together in one frame, with the mark of its end", () => {
    const { link, sent } = fakeLink();
    const tails = subscriptions();
    tails.add(link, 5, mark(9));
    tails.push(committed(10, 2, 3));
    expect(sent.map((m) => [m.firstOffset, m.highWatermark, m.bytes > 0])).toEqual([
      [10, 10, false],
      [10, 15, true],
    ]);
  });
  test("the trace of a recorded batch travels in the frame that holds it", () => {
    const { link, sent } = fakeLink();
    const tails = subscriptions();
    tails.add(link, 5, undefined);
    const big = 30_000;
    tails.push({ ...committed(0, big, big, 1), trace: new Uint8Array(26).fill(7), tracedAt: 1 });
    tails.push(committed(2 * big + 1, 1));
    expect(sent.map((m) => [m.firstOffset, decodeAnnotations(m.annotations).traceParent?.[0]])).toEqual([
      [0, undefined],
      [big, 7],
      [2 * big, undefined],
      [2 * big + 1, undefined],
    ]);
  });
  test("a subscriber without room misses data, and is told of the gap when it has room again", () => {
    const proxy = fakeLink();
    const tails = subscriptions();
    tails.add(proxy.link, 5, mark(-1));
    proxy.open = false;
    tails.push(committed(0, 4));
    proxy.open = true;
    tails.resume(proxy.link, mark(3));
    expect(proxy.sent.at(-1)).toMatchObject({ firstOffset: 4, highWatermark: 4, bytes: 0 });
    tails.push(committed(4, 1));
    expect(proxy.sent.at(-1)).toMatchObject({ firstOffset: 4, highWatermark: 5 });
  });
  test("the end of the ownership ends them with the reason", () => {
    const { link, sent } = fakeLink();
    const tails = subscriptions();
    tails.add(link, 5, mark(0));
    tails.endAll(errorNumber("NOT_OWNER"));
    expect(sent.at(-1)?.code).toBe(errorNumber("NOT_OWNER"));
    expect(tails.size).toBe(0);
  });
  test("those of a link that ended are forgotten", () => {
    const { link, sent } = fakeLink();
    const tails = subscriptions();
    tails.add(link, 5, mark(0));
    tails.removeLink(link);
    tails.push(committed(1, 1));
    expect(sent).toHaveLength(1);
  });
});

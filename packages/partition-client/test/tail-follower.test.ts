import { describe, expect, test } from "@jest/globals";
import { encodeAnnotations } from "@sluice/core/log";
import { errorNumber, type ErrorCode } from "@sluice/core/model";
import { FrameType, type SubscribeMessage } from "@sluice/link";
import { ManualClock } from "@sluice/runtime/testing";
import { TailFollower, type Marks } from "../src/index.ts";
import { a, b, FakeLink, FakeLinks, partition, stamped } from "./support/fakes.ts";

function setup() {
  const clock = new ManualClock();
  const links = new FakeLinks();
  const link = new FakeLink();
  links.up.set(a, link);
  const follower = new TailFollower(clock, links.links);
  const data: { first: number; bytes: number; marks: Marks; release: () => void }[] = [];
  const traces: (Uint8Array | undefined)[] = [];
  const marks: Marks[] = [];
  const interruptions: ErrorCode[] = [];
  follower.follow(partition, 5, {
    onData: (first, batches, m, release, trace) => {
      data.push({ first, bytes: batches.length, marks: m, release });
      traces.push(trace);
    },
    onMarks: (m) => marks.push(m),
    onInterrupted: (code) => interruptions.push(code),
  });
  return { clock, links, link, follower, data, marks, interruptions, traces };
}
const subscriptions = (link: FakeLink): (readonly [number, number])[] =>
  link.frames.filter((f) => f.type === FrameType.subscribe).map((f) => [f.number, (f.message as SubscribeMessage).fromOffset] as const);

describe("tail follower", () => {
  test("one subscription; data and marks are told, credit goes back once", () => {
    const { link, follower, data, marks } = setup();
    expect(subscriptions(link)).toEqual([[1, 5]]);
    const batch = stamped(5, 3, 2);
    follower.onFrame(link.link, link.tail(1, { epoch: 2, highWatermark: 8, firstOffset: 5 }, batch));
    follower.onFrame(link.link, link.tail(1, { epoch: 2, highWatermark: 9 }));
    expect(data.map((d) => [d.first, d.bytes, d.marks.highWatermark])).toEqual([[5, batch.length, 8]]);
    expect(marks.map((m) => m.highWatermark)).toEqual([9]);
    expect(link.released).toBe(7);
    data[0]?.release();
    data[0]?.release();
    expect(link.released).toBe(14);
  });

  test("the trace of what was pushed is told with it", () => {
    const { link, follower, traces } = setup();
    const annotations = encodeAnnotations({ traceParent: new Uint8Array(26).fill(7) });
    follower.onFrame(link.link, link.tail(1, { epoch: 2, highWatermark: 8, firstOffset: 5, annotations }, stamped(5, 3, 2)));
    follower.onFrame(link.link, link.tail(1, { epoch: 2, highWatermark: 11, firstOffset: 8 }, stamped(8, 3, 2)));
    expect(traces.map((trace) => trace?.[0])).toEqual([7, undefined]);
  });

  test("a link that dies: interrupted, then subscribed again from where it was", () => {
    const { clock, links, link, follower, interruptions } = setup();
    follower.onFrame(link.link, link.tail(1, { epoch: 1, highWatermark: 8, firstOffset: 5 }, stamped(5, 3, 1)));
    link.closed = true;
    links.up.delete(a);
    follower.linkDown(a);
    expect(interruptions).toEqual(["LINK_DOWN"]);
    const again = new FakeLink();
    links.up.set(a, again);
    clock.advance(60);
    expect(subscriptions(again)).toEqual([[1, 8]]);
  });

  test("a move: the new owner is subscribed at once, late frames of the old subscription only give credit back", () => {
    const { links, link, follower, data } = setup();
    const next = new FakeLink();
    links.up.set(b, next);
    links.owner = b;
    follower.routeChanged(partition);
    expect(link.frames.at(-1)?.type).toBe(FrameType.unsubscribe);
    expect(subscriptions(next)).toEqual([[1, 5]]);
    follower.onFrame(link.link, link.tail(1, { epoch: 1, highWatermark: 8, firstOffset: 5 }, stamped(5, 3, 1)));
    expect(data).toEqual([]);
    expect(link.released).toBe(7);
  });

  test("an ended subscription is made again; unfollow is the end of it", () => {
    const { clock, link, follower, interruptions } = setup();
    follower.onFrame(link.link, link.tail(1, { code: errorNumber("NOT_OWNER") }));
    expect(interruptions).toEqual(["NOT_OWNER"]);
    clock.advance(60);
    expect(subscriptions(link).length).toBe(2);
    follower.unfollow(partition);
    expect(follower.size).toBe(0);
    expect(link.frames.at(-1)?.type).toBe(FrameType.unsubscribe);
  });
});

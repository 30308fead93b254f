import { describe, expect, test } from "@jest/globals";
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { timers } from "@sluice/core/model";
import { ManualClock } from "@sluice/runtime/testing";
import { call, connectLink, memoryPair, producedCodec, produceCodec, type Link, type LinkCloseReason } from "../src/index.ts";
import { Connection } from "../src/connection.ts";
import { Pinger } from "../src/pinger.ts";
import { contextOf, eventually, topic } from "./support/context.ts";

describe("pinger", () => {
  const start = () => {
    const clock = new ManualClock();
    const events: string[] = [];
    const pinger = new Pinger(
      clock,
      timers,
      () => void events.push(`ping ${clock.monotonicMs()}`),
      () => void events.push(`dead ${clock.monotonicMs()}`),
    );
    pinger.start();
    return { clock, events, pinger };
  };
  test("silent peer: two pings without an answer, then dead", () => {
    const { clock, events } = start();
    clock.advance(5_000);
    expect(events).toEqual(["ping 500", "ping 1000", "dead 1500"]);
  });
  test("while bytes come no ping is sent", () => {
    const { clock, events, pinger } = start();
    for (let i = 0; i < 20; i++) {
      clock.advance(300);
      pinger.heard();
    }
    expect(events).toEqual([]);
  });
  test("an answered ping starts the count again", () => {
    const { clock, events, pinger } = start();
    for (let i = 0; i < 6; i++) {
      clock.advance(1_000);
      pinger.heard();
    }
    expect(events.some((e) => e.startsWith("dead"))).toBe(false);
  });
  test("after stop nothing happens", () => {
    const { clock, events, pinger } = start();
    pinger.stop();
    clock.advance(5_000);
    expect(events).toEqual([]);
    expect(clock.pendingTimers).toBe(0);
  });
  test("when the own timer fired late, this process was paused: the peer is not declared dead", () => {
    const events: string[] = [];
    let now = 0;
    let fire: () => void = () => {};
    const clock = {
      wallMs: () => now,
      monotonicMs: () => now,
      setTimer: (_ms: number, fn: () => void) => {
        fire = fn;
        return { cancel() {} };
      },
      sleep: () => Promise.resolve(),
      afterTurn() {},
    };
    const pinger = new Pinger(
      clock,
      timers,
      () => void events.push("ping"),
      () => void events.push("dead"),
    );
    pinger.start();
    for (const lateMs of [0, 0, 400, 0]) {
      now += 500 + lateMs;
      fire();
    }
    // Two on time, then the late one begins anew instead of ending the link, then the second.
    expect(events).toEqual(["ping", "ping", "ping", "ping"]);
    now += 500;
    fire();
    expect(events.at(-1)).toBe("dead");
  });
});

test("a link whose peer falls silent ends with `timeout`, under a manual clock", () => {
  const clock = new ManualClock();
  const ended: LinkCloseReason[] = [];
  const connection = (side: "connect" | "accept") =>
    new Connection({
      context: contextOf(side === "connect" ? "proxy-1" : "broker-1", { clock }),
      side,
      address: "memory",
      purpose: "log",
      handlers: { onFrame() {}, onClose: (_l, reason) => void ended.push(reason) },
    });
  const a = connection("connect");
  const b = connection("accept");
  let deaf = false;
  // From b to a nothing arrives any more once `deaf`.
  const half = {
    target: () => a.target(),
    onRead: (n: number) => a.onRead(n),
    onChunk: (chunk: Uint8Array) => (deaf ? undefined : a.onChunk(chunk)),
    onConnect: () => a.onConnect(),
    onClose: (code: string | undefined) => a.onClose(code),
  };
  const [left, right] = memoryPair(clock, half, b);
  a.attach(left, 1_000);
  b.attach(right, 1_000);
  for (let i = 0; i < 10; i++) clock.runTurn();
  expect([a.opened, b.opened]).toEqual([true, true]);
  clock.advance(20_000);
  expect(ended).toEqual([]);
  deaf = true;
  clock.advance(2_000);
  expect(ended[0]).toMatchObject({ kind: "timeout", code: "TIMED_OUT" });
});

describe("a peer in another process", () => {
  const startPeer = async () => {
    const child = spawn(
      process.execPath,
      ["--disable-warning=ExperimentalWarning", fileURLToPath(new URL("support/peer.ts", import.meta.url))],
      {
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    const address = await new Promise<string>((resolve) => {
      child.stdout.once("data", (line: Buffer) => resolve(line.toString().trim()));
    });
    return { child, address };
  };
  const produce = { ...produceCodec.create(), topicId: topic };

  test("paused: the link times out; killed: it resets at once; both fail the requests as unknown", async () => {
    const { child, address } = await startPeer();
    try {
      const context = contextOf("proxy-1", { timers: { ...timers, linkPingIntervalMs: 400, linkConnectTimeoutMs: 5_000 } });
      const reasons: LinkCloseReason[] = [];
      const connect = (): Promise<Link> =>
        connectLink(context, { address, purpose: "log", handlers: { onFrame() {}, onClose: (_l, r) => void reasons.push(r) } });
      const link = await connect();
      expect((await call(link, produceCodec, produce, producedCodec, 2_000, new Uint8Array(3))).message.baseOffset).toBe(3);
      child.kill("SIGSTOP");
      const lost = call(link, produceCodec, produce, producedCodec, 30_000, new Uint8Array(3));
      await expect(lost).rejects.toMatchObject({ code: "OUTCOME_UNKNOWN", cause: { sent: true } });
      expect(reasons).toMatchObject([{ kind: "timeout", code: "TIMED_OUT" }]);
      child.kill("SIGCONT");

      const again = await connect();
      const gone = call(again, produceCodec, produce, producedCodec, 30_000, new Uint8Array(3)).then(() =>
        call(again, produceCodec, produce, producedCodec, 30_000),
      );
      child.kill("SIGKILL");
      await expect(gone).rejects.toMatchObject({ cause: expect.objectContaining({ answered: false }) });
      await eventually(() => reasons.length === 2, "reset");
      expect(reasons[1]?.kind).toBe("reset");
    } finally {
      child.kill("SIGKILL");
    }
  });
});

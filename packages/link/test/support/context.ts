import { timers } from "@sluice/core/model";
import { silentLogger, systemClock, systemRandom, type Clock } from "@sluice/runtime";
import { Connection, type ConnectionOptions } from "../../src/connection.ts";
import { memoryPair } from "../../src/memory-pair.ts";
import type { LinkCloseReason, LinkContext, LinkHandlers, LinkIdentity } from "../../src/index.ts";

export const identityOf = (memberId: string, more: Partial<LinkIdentity> = {}): LinkIdentity => ({
  clusterId: "cluster-one",
  generation: 1,
  service: memberId.startsWith("store") ? "segment-store" : memberId.startsWith("broker") ? "broker" : "proxy",
  memberId,
  instance: `${memberId}-instance`,
  incarnation: "",
  zone: "a",
  ...more,
});
export const contextOf = (memberId: string, more: Partial<LinkContext> = {}): LinkContext => ({
  clock: systemClock,
  random: systemRandom,
  logger: silentLogger,
  timers,
  identity: identityOf(memberId),
  ...more,
});

/** Two connections joined in memory. `ended` collects how each side ended. */
export interface Pair {
  readonly a: Connection;
  readonly b: Connection;
  readonly ended: { a?: LinkCloseReason; b?: LinkCloseReason };
}
export function pairOf(a: LinkContext, b: LinkContext, handlers: { a?: Partial<LinkHandlers>; b?: Partial<LinkHandlers> } = {}): Pair {
  const ended: { a?: LinkCloseReason; b?: LinkCloseReason } = {};
  const side = (context: LinkContext, which: "a" | "b"): ConnectionOptions => ({
    context,
    side: which === "a" ? "connect" : "accept",
    address: "memory",
    purpose: "log",
    handlers: {
      onFrame() {},
      ...handlers[which],
      onClose(link, reason) {
        ended[which] = reason;
        handlers[which]?.onClose?.(link, reason);
      },
    },
    onFailed: (reason) => {
      ended[which] = reason;
    },
  });
  const left = new Connection(side(a, "a"));
  const right = new Connection(side(b, "b"));
  const [socketA, socketB] = memoryPair(a.clock, left, right);
  left.attach(socketA, 1_000);
  right.attach(socketB, 1_000);
  return { a: left, b: right, ended };
}
/** Turns of the real event loop until `done` holds; fails after `turnsMax`. */
export async function until(done: () => boolean, what: string, turnsMax = 20_000): Promise<void> {
  for (let i = 0; !done(); i++) {
    if (i >= turnsMax) throw new Error(`never came: ${what}`);
    await turn(systemClock);
  }
}
export const turn = (clock: Clock): Promise<void> => new Promise((resolve) => clock.afterTurn(resolve));
/** Waits on the wall, for things of other processes: polls every 5 ms. */
export async function eventually(done: () => boolean, what: string, timeoutMs = 10_000): Promise<void> {
  const endMs = systemClock.monotonicMs() + timeoutMs;
  while (!done()) {
    if (systemClock.monotonicMs() > endMs) throw new Error(`never came within ${timeoutMs} ms: ${what}`);
    await systemClock.sleep(5);
  }
}
export const openPair = async (
  a: LinkContext,
  b: LinkContext,
  handlers: { a?: Partial<LinkHandlers>; b?: Partial<LinkHandlers> } = {},
): Promise<Pair> => {
  const pair = pairOf(a, b, handlers);
  await until(() => pair.a.opened && pair.b.opened, "both ends open");
  return pair;
};
export const topic = "0123abcd-0000-4000-8000-00000000beef";

import { errorCodeOf, timers, type ErrorCode } from "@sluice/core/model";
import { ManualClock } from "@sluice/runtime/testing";
import { ProduceRouter, type ProduceRouterOptions } from "../../src/index.ts";
import { a, bytesOf, FakeLink, FakeLinks, partition } from "./fakes.ts";

type Outcome = number | ErrorCode;

/** A router with one partition, whose owner is the test. */
export function setup(heldBytesMax = 1_000, { unwritable, gone }: Pick<ProduceRouterOptions, "unwritable" | "gone"> = {}) {
  const clock = new ManualClock();
  const links = new FakeLinks();
  const first = new FakeLink();
  links.up.set(a, first);
  const router = new ProduceRouter({
    clock,
    timers,
    links: links.links,
    heldBytesMax,
    ...(unwritable && { unwritable }),
    ...(gone && { gone }),
  });
  const outcomes: [string, Outcome][] = [];
  const causes = new Map<string, ErrorCode | undefined>();
  const produce = (
    name: string,
    options: { idempotent?: boolean; deadlineMs?: number; trace?: Uint8Array; vouches?: boolean } = {},
  ): void =>
    router.produce({
      partition,
      batch: bytesOf(name),
      idempotent: options.idempotent ?? false,
      expectedBaseOffset: -1,
      fenceToken: -1,
      deadlineMs: clock.monotonicMs() + (options.deadlineMs ?? 30_000),
      trace: options.trace,
      vouches: options.vouches === undefined ? undefined : () => options.vouches === true,
      done: (o) => {
        outcomes.push([name, o.code === 0 ? o.baseOffset : errorCodeOf(o.code)]);
        causes.set(name, o.cause);
      },
    });
  /** A first batch, stored: the owner is known to take more. */
  const prove = (): void => {
    produce("p");
    first.ok(0);
    outcomes.length = 0;
  };
  return { clock, links, first, router, outcomes, causes, produce, prove };
}

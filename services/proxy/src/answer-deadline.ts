import type { Timers } from "@sluice/core/model";
import type { Clock } from "@sluice/runtime";
import { proxyLimits } from "./limits.ts";

/**
 * Monotonic ms until which a request is tried whose caller waits `callerMs`: a little before the caller gives up by himself, so that he is told why,
 * and no longer than requests are held.
 */
export function answerDeadline(clock: Clock, timers: Timers, callerMs: number): number {
  const answerMs = Math.min(proxyLimits.answerMarginMs, callerMs / 10);
  return clock.monotonicMs() + Math.min(callerMs - answerMs, timers.produceHoldMs);
}

import { SluiceError } from "@sluice/core/model";
import type { Clock } from "@sluice/runtime";
import { checkCall } from "./keys.ts";
import type { CallOptions } from "./port.ts";

/**
 * Runs one call with a deadline and the caller's signal joined into the signal that `run` gets.
 * The promise settles as soon as either fires, even if `run` cannot be interrupted: then `run` finishes alone and its result is dropped.
 * Rejects with OBJECT_STORE_UNAVAILABLE after `timeoutMs` and with CANCELLED when the caller's signal aborts.
 */
export async function withDeadline<T>(
  clock: Clock,
  what: string,
  options: CallOptions | undefined,
  defaultTimeoutMs: number | undefined,
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  checkCall(options);
  const outer = options?.signal;
  if (outer?.aborted === true) throw cancelled(what, outer);
  const timeoutMs = options?.timeoutMs ?? defaultTimeoutMs;
  const controller = new AbortController();
  const { promise: ended, reject } = Promise.withResolvers<never>();
  const end = (error: SluiceError): void => {
    controller.abort(error);
    reject(error);
  };
  const onAbort = (): void => end(cancelled(what, outer));
  outer?.addEventListener("abort", onAbort, { once: true });
  const timer =
    timeoutMs === undefined ? undefined : clock.setTimer(timeoutMs, () => end(unavailable(`${what}: no answer within ${timeoutMs} ms`)));
  try {
    const running = run(controller.signal);
    running.catch(ignore);
    return await Promise.race([running, ended]);
  } finally {
    timer?.cancel();
    outer?.removeEventListener("abort", onAbort);
  }
}

const ignore = (): void => {};

export const cancelled = (what: string, signal: AbortSignal | undefined): SluiceError =>
  new SluiceError("CANCELLED", `${what}: the caller gave up`, { cause: signal?.reason });
export const unavailable = (message: string, cause?: unknown): SluiceError =>
  new SluiceError("OBJECT_STORE_UNAVAILABLE", message, { cause });
export const notFound = (what: string, cause?: unknown): SluiceError =>
  new SluiceError("OBJECT_NOT_FOUND", `${what}: no such object`, { cause });
/** Throws the reason of an aborted signal: between the steps of a call. */
export function throwIfEnded(signal: AbortSignal): void {
  if (signal.aborted) throw signal.reason;
}

import type { ClusterView } from "@sluice/catalog";
import type { Clock } from "@sluice/runtime";

/**
 * Until the own view shows what was done, so that the caller's next request here does too; at most `withinMs`: it is done in any case. Never
 * rejects.
 */
export async function untilVisible(clock: Clock, view: ClusterView, visible: () => boolean, withinMs: number): Promise<void> {
  if (visible()) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  const timer = clock.setTimer(Math.max(0, withinMs), resolve, { unref: true });
  const unsubscribe = view.onChange(() => {
    if (visible()) resolve();
  });
  await promise;
  timer.cancel();
  unsubscribe();
}

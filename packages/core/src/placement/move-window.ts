/**
 * How many planned moves are under way at a time: as many as the cluster does without making each of them long, since a partition is not served
 * while it moves. Half as many again after a window of quick moves, half as many after a window of slow ones.
 */
export const moveWindowLimits = {
  /** Moves at a time before anything was measured; never fewer than `min`. */
  start: 4,
  min: 2,
  /** A move that took no longer, from the assignment until the partition is served again, ms: there is room for more ... */
  quickMs: 150,
  /** ... one that took longer than this: they are in each other's way. */
  slowMs: 300,
  /** Of each move; a window of n moves changes by n of these. */
  step: 0.5,
} as const;

export const firstMoveWindow = (max: number): number => Math.min(moveWindowLimits.start, max);
/** The window after a move that took `tookMs`; its whole part counts. */
export function nextMoveWindow(window: number, tookMs: number, max: number): number {
  const { min, quickMs, slowMs, step } = moveWindowLimits;
  if (tookMs <= quickMs) return Math.min(max, window + step);
  return tookMs <= slowMs ? window : Math.max(Math.min(min, max), window - step);
}

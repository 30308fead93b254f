import type { ClusterDescription, Sluice } from "@sluice/client";
import { systemClock, type Timer } from "@sluice/runtime/clock";
import type { Terminal } from "./terminal.ts";

/** Why no partition takes records, with the code that a write would end with; undefined when there is no reason for all of them. */
export function whyUnwritable({ members, partitionsUnwritable, unwritableReason }: ClusterDescription): string | undefined {
  if (unwritableReason === "" || partitionsUnwritable === 0) return undefined;
  const stores = members.filter((member) => member.service === "segment-store");
  const full = stores.filter((store) => store.diskFull).length;
  const what =
    unwritableReason === "DISK_FULL"
      ? `${full} of ${stores.length} storage nodes have no room on their disks`
      : `storage nodes ${stores.length} of at least 2`;
  return `${what} (${unwritableReason})`;
}

/** Without an acknowledgement for this long, a person is told why, ms. */
const SILENT_MS = 5_000;
const LOOK_EVERY_MS = 1_000;
const ASK_TIMEOUT_MS = 2_000;

/** What a write is watched by. */
export interface Progress {
  /** Records without an outcome. */
  readonly open: number;
  readonly acknowledged: number;
}

/** Says on standard error why records wait, once in each silence. It only looks: what cannot be asked is not told. */
export function watchSilence(progress: Progress, sluice: Sluice, terminal: Terminal): { stop(): void } {
  let timer: Timer | undefined;
  let acknowledged = -1;
  let sinceMs = 0;
  let told = false;
  const look = async (): Promise<void> => {
    const now = systemClock.monotonicMs();
    if (progress.open === 0 || progress.acknowledged !== acknowledged) {
      acknowledged = progress.acknowledged;
      sinceMs = now;
      told = false;
      return;
    }
    if (told || now - sinceMs < SILENT_MS) return;
    const cluster = await sluice.admin.describeCluster({ timeoutMs: ASK_TIMEOUT_MS });
    const { partitionsOffline } = cluster;
    const why = whyUnwritable(cluster) ?? (partitionsOffline === 0 ? undefined : `${partitionsOffline} partitions without a broker`);
    if (why === undefined || stopped || progress.acknowledged !== acknowledged) return;
    told = true;
    terminal.note(`nothing was acknowledged for ${Math.round((now - sinceMs) / 1_000)} s: ${why}; waiting`);
  };
  let stopped = false;
  const again = (): void => {
    if (stopped) return;
    timer = systemClock.setTimer(
      LOOK_EVERY_MS,
      () =>
        void look()
          .catch(() => undefined)
          .finally(again),
      { unref: true },
    );
  };
  again();
  return {
    stop(): void {
      stopped = true;
      timer?.cancel();
    },
  };
}

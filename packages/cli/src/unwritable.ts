import type { ClusterDescription } from "@sluice/client";

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

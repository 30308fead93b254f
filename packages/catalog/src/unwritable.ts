import type { ClusterView } from "./view.ts";

/** A record is acknowledged when two storage nodes have it. */
const COPIES_TO_ACKNOWLEDGE = 2;

/** Why no partition can be written now, as far as the metadata knows; undefined = enough storage nodes take records. */
export function unwritableReason(view: Pick<ClusterView, "membersOf">): "NOT_ENOUGH_REPLICAS" | "DISK_FULL" | undefined {
  const stores = view.membersOf("segment-store");
  if (stores.length < COPIES_TO_ACKNOWLEDGE) return "NOT_ENOUGH_REPLICAS";
  return stores.filter((store) => store.diskFull !== true).length < COPIES_TO_ACKNOWLEDGE ? "DISK_FULL" : undefined;
}

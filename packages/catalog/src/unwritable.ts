import { QUORUM } from "@sluice/core/partition";
import type { ClusterView } from "./view.ts";

/** Why no partition can be written now, as far as the metadata knows; undefined = enough storage nodes take records. */
export function unwritableReason(view: Pick<ClusterView, "membersOf">): "NOT_ENOUGH_REPLICAS" | "DISK_FULL" | undefined {
  const stores = view.membersOf("segment-store");
  if (stores.length < QUORUM) return "NOT_ENOUGH_REPLICAS";
  return stores.filter((store) => store.diskFull !== true).length < QUORUM ? "DISK_FULL" : undefined;
}

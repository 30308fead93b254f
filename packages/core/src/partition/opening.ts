import type { PartitionState as RegisterState, ReplicaId, SegmentRecord } from "../model/index.ts";
import { encodeProducers } from "../producer/index.ts";
import type { ProducerTable } from "../producer/index.ts";
import { startCreation } from "./creation.ts";
import type { Effect } from "./effect.ts";
import { log, nextNonce, sealAll, tailMark } from "./machine.ts";
import { newActive } from "./active.ts";
import type { Opening, Partition, Serving } from "./state.ts";
import { submit } from "./transaction.ts";

/** A5. `sealed` is published with the new segment; `sealTo` are the copies to be told. */
export function startOpening(
  p: Partition,
  base: number,
  producers: ProducerTable,
  sealed: SegmentRecord | undefined,
  sealTo: readonly ReplicaId[],
  now: number,
  out: Effect[],
): void {
  p.role = { kind: "opening", base, producers, sealed, sealTo };
  startCreation(p, base, encodeProducers(producers), now, out);
}

/** A6: seals the tail, adds the segment and opens the partition in one transaction. */
export function submitPublish(p: Partition, role: Opening, now: number, out: Effect[]): void {
  const { creation, register } = p;
  if (creation === undefined || register === undefined || p.txn !== undefined) return;
  const opened: SegmentRecord = {
    segment: creation.segment,
    base: creation.base,
    phase: "OPEN",
    replicas: creation.members.filter((m) => m.status === "made").map((m) => m.replica),
  };
  const state: RegisterState = {
    ...register.state,
    nonce: nextNonce(p),
    phase: "OPEN",
    tail: { segment: creation.segment, base: creation.base },
  };
  if (p.mutants.M29 && role.sealed !== undefined) sealAll(p, role.sealed, role.sealTo, now);
  const segments = role.sealed === undefined ? [opened] : [role.sealed, opened];
  submit(p, "publish", { expectedRevision: register.modRevision, state, segments, readSegment: undefined }, now, out);
}

/** A7. */
export function published(p: Partition, segments: readonly SegmentRecord[], now: number, out: Effect[]): void {
  if (p.role.kind !== "opening" || p.creation === undefined) return;
  const opening = p.role;
  p.producers = opening.producers;
  p.nextOffset = opening.base;
  p.committed = opening.base - 1;
  const role: Serving = { kind: "serving", active: newActive(p.creation, now), roll: undefined };
  p.role = role;
  p.creation = undefined;
  const [first] = segments;
  if (opening.sealed !== undefined && first !== undefined && !p.mutants.M29) sealAll(p, first, opening.sealTo, now);
  log(p, out, "partition.open", { base: opening.base, replicas: role.active.slots.map((s) => s.replica.node).join(" ") });
  out.push({ kind: "markTail", mark: tailMark(p, role) });
}

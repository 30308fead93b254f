import { sameSegment } from "../model/index.ts";
import { quorumDurable } from "./active.ts";
import { QUORUM } from "./state.ts";
import type { Partition, PendingBatch, Serving } from "./state.ts";

/**
 * What must hold after every step, checked in production after each input that is not an append or its answer: a broken one stops the
 * partition
 * (alarm and step down), never the process. The first broken rule in words; undefined when all hold.
 */
export function brokenInvariant(p: Partition): string | undefined {
  const { role, register } = p;
  if (role.kind === "serving") {
    if (register === undefined || register.state.ownerInstance !== p.options.instance) return "serving without the register";
    return servingBroken(p, role);
  }
  if ((role.kind === "recovering" || role.kind === "opening") && register === undefined) return "recovering without the register";
  if (role.kind === "opening" && p.creation !== undefined && p.creation.base !== role.base)
    return `I2: the new segment starts at ${p.creation.base}, the tail ends before ${role.base}`;
  if (role.kind === "idle" && p.pipeline.items.length > 0) return "batches are held without ownership";
  return undefined;
}

function servingBroken(p: Partition, role: Serving): string | undefined {
  const { active, roll } = role;
  const state = p.register?.state;
  if (p.mutants.M10 || p.mutants.M15 || p.mutants.M28) return undefined;
  if (active.segment.epoch !== state?.epoch)
    return `I1: the open segment is of epoch ${active.segment.epoch}, the register of ${state?.epoch ?? -1}`;
  if (state.tail === undefined || !sameSegment(state.tail.segment, active.segment) || state.tail.base !== active.base)
    return "I2: the open segment is not the register's tail";
  if (p.committed < active.base - 1 || p.committed >= p.nextOffset)
    return `I6: committed ${p.committed} outside ${active.base - 1}..${p.nextOffset - 1}`;
  if (active.slots.length < QUORUM || active.slots.length > 3) return `I4: ${active.slots.length} members`;
  if (quorumDurable(active) < p.committed) return `I4: committed ${p.committed} above what two members hold`;
  if (active.frozen && roll?.step === "frozen" && roll.end !== p.committed) return `I5: the end ${roll.end} moved to ${p.committed}`;
  return undefined;
}

/** The pipeline's own rules, linear in what is in flight: for tests and the simulator, after every step. */
export function brokenPipeline(p: Partition): string | undefined {
  const { pipeline } = p;
  let bytes = 0;
  for (let i = 0; i < pipeline.items.length; i++) {
    const item = pipeline.items[i] as PendingBatch;
    bytes += item.payload.length;
    const next = pipeline.items[i + 1];
    if (item.last + 1 !== (next?.first ?? p.nextOffset)) return `offsets have a gap after ${item.last}`;
    if (i < pipeline.uncommitted - pipeline.from !== item.last <= p.committed)
      return `batch ${item.first} is on the wrong side of the committed mark`;
  }
  if (bytes !== pipeline.bytes) return `${pipeline.bytes} bytes counted, ${bytes} held`;
  if (pipeline.unsent < pipeline.uncommitted || pipeline.uncommitted < pipeline.from) return "marks of the pipeline are out of order";
  return undefined;
}

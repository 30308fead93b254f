import type { ErrorCode } from "../model/index.ts";
import { codeOf, errorNumber, limits } from "../model/index.ts";
import type { Partition, ReplicaState } from "./state.ts";

/** The one comparison of epochs: an epoch below the highest seen for the partition is refused. */
export function isStale(state: ReplicaState, epoch: number, partition: Partition | undefined): boolean {
  if (partition === undefined) return false;
  return state.mutants.M16 === true ? epoch + 1 < partition.maxEpoch : epoch < partition.maxEpoch;
}
/** A code with its reason, as answers carry it. */
export const refusal = (code: ErrorCode, message: string): { readonly code: number; readonly message: string } => ({
  code: errorNumber(code),
  message,
});
export const SUCCESS = { code: 0 } as const;

/** A producer snapshot from outside: undefined when it can be kept, else why not. No bytes = not known. */
export function checkSnapshot(state: ReplicaState, snapshot: Uint8Array): string | undefined {
  if (snapshot.length > limits.producerSnapshotBytesMax) return "the producer snapshot is too large";
  if (snapshot.length === 0) return undefined;
  try {
    state.options.producers.decode(snapshot);
    return undefined;
  } catch (e) {
    return `the producer snapshot is malformed: ${codeOf(e)}`;
  }
}

import { codeOf, errorCatalogue, errorCodeOf, SluiceError, type ErrorCode } from "@sluice/core/model";
import type { Caller } from "../coordinator-client.ts";
import type { KafkaCall } from "./api.ts";
import type { KafkaContext } from "./context.ts";
import { KafkaError } from "./errors.ts";

/** Errors that pass, in the words that members understand. Of all others they only know one: look for the coordinator, and ask it again. */
const TOLD_AS_THEY_ARE: ReadonlySet<ErrorCode> = new Set(["NOT_COORDINATOR", "REBALANCE_IN_PROGRESS", "STALE_MEMBER_EPOCH"]);

/**
 * What a group said, as Kafka's code. Members that are told anything unexpected end; so whatever may pass is COORDINATOR_NOT_AVAILABLE, also an unknown
 * outcome: joining, committing and leaving may be done twice.
 */
export function groupCode(code: ErrorCode): number {
  if (code === "PERMISSION_DENIED") return KafkaError.groupAuthorizationFailed;
  const { retriable, kafka } = errorCatalogue[code];
  return code === "CANCELLED" || (retriable && !TOLD_AS_THEY_ARE.has(code)) ? KafkaError.coordinatorNotAvailable : kafka;
}
/** @param error number of the catalogue in a coordinator's answer; 0 = none */
export const groupAnswerCode = (error: number): number => (error === 0 ? KafkaError.none : groupCode(errorCodeOf(error)));
export const groupFailureCode = (thrown: unknown): number => groupCode(codeOf(thrown));

export interface GroupFailure {
  readonly errorCode: number;
  readonly errorMessage: string | null;
}
export const groupFailure = (thrown: unknown): GroupFailure => ({
  errorCode: groupFailureCode(thrown),
  errorMessage: codeOf(thrown) === "INTERNAL" ? "internal error; the server's log has the cause" : (thrown as Error).message,
});

/** Who asks a coordinator, and how long it may take. */
export const callerOf = ({ clock }: KafkaContext, call: KafkaCall, withinMs: number): Caller => ({
  deadlineMs: clock.monotonicMs() + withinMs,
  signal: call.signal,
});
/** Throws PERMISSION_DENIED unless the principal has the handler's right on the group. */
export async function checkGroup(call: KafkaCall, group: string): Promise<void> {
  if (!(await call.may(group))) throw new SluiceError("PERMISSION_DENIED", `${call.principal.name} has no right to group ${group}`);
}
/** Those of the topics that the principal may read or describe. */
export async function permittedTopics(
  call: KafkaCall,
  operation: "read" | "describe",
  names: Iterable<string>,
): Promise<ReadonlySet<string>> {
  const permitted = new Set<string>();
  for (const name of new Set(names)) if (await call.mayOther("topic", operation, name)) permitted.add(name);
  return permitted;
}

import { codeOf } from "@sluice/core/model";

const CODES = new Set(["METADATA_UNAVAILABLE", "UNKNOWN_OUTCOME", "TIMED_OUT"]);

/** The metadata store does not answer: a reason to ask again, and never a reason for a service to give up its start. */
export const isAway = (error: unknown): boolean => CODES.has(codeOf(error));

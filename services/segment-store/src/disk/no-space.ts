import { codeOf, isSluiceError, SluiceError } from "@sluice/core/model";

/** No room, or no more of it for this user: space, inodes and quota end in the same wait. */
const NO_SPACE: ReadonlySet<unknown> = new Set(["ENOSPC", "EDQUOT"]);

export const isNoSpace = (error: unknown): boolean =>
  typeof error === "object" && error !== null && "code" in error && NO_SPACE.has(error.code);

/** Runs `work`; a full disk ends it with DISK_FULL and with `what` could not be written. */
export async function withRoom<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isNoSpace(error)) throw error;
    throw new SluiceError("DISK_FULL", `no room on the disk for ${what}`, { cause: error });
  }
}

/** Fields of a log line: of a failure that has a code, the code and the sentence; of any other the stack too, since nobody has foreseen it. */
export const failureFields = (error: unknown): Record<string, unknown> =>
  isSluiceError(error) ? { code: error.code, cause: error.message } : { code: codeOf(error), err: error };

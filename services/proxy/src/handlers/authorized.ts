import { codeOf } from "@sluice/core/model";
import type { CallContext } from "@sluice/rpc";

/** Whether the call's own right covers the named resource: lists leave out what it does not cover. Throws what is no answer to that. */
export async function isAuthorized(call: CallContext, name: string): Promise<boolean> {
  try {
    await call.authorize(name);
    return true;
  } catch (error) {
    if (codeOf(error) === "PERMISSION_DENIED") return false;
    throw error;
  }
}

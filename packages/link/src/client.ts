import { SluiceError } from "@sluice/core/model";
import { parseAddress } from "./address.ts";
import { Connection } from "./connection.ts";
import type { ConnectOptions, Link, LinkCloseReason, LinkContext } from "./link.ts";
import { resolveReadPath } from "./read-path.ts";
import { connectSocket } from "./socket.ts";

/** The whole handshake may take this many times `linkConnectTimeoutMs`. */
const HANDSHAKE_FACTOR = 2;

/** A failed attempt to connect: a SluiceError whose `cause` is the LinkCloseReason. */
export const connectFailure = (reason: LinkCloseReason): SluiceError => new SluiceError(reason.code, reason.message, { cause: reason });
export const closeReasonOf = (error: unknown): LinkCloseReason | undefined => {
  const cause = (error as { cause?: unknown } | undefined)?.cause;
  return typeof cause === "object" && cause !== null && "kind" in cause ? (cause as LinkCloseReason) : undefined;
};

/**
 * Opens one link and resolves after the handshake. Rejects with the code of the refusal (CLUSTER_MISMATCH, VERSION_MISMATCH,
 * UNAUTHENTICATED, WRONG_INCARNATION ...), LINK_DOWN, TIMED_OUT, or CANCELLED by the signal.
 */
export async function connectLink(context: LinkContext, options: ConnectOptions): Promise<Link> {
  const address = parseAddress(options.address);
  const path = await resolveReadPath(context.clock, context.readPath, context.logger);
  const { signal } = options;
  return new Promise<Link>((resolve, reject) => {
    const cancel = (): void => connection.close("CANCELLED", "the caller gave up");
    const connection = new Connection({
      context,
      side: "connect",
      address: options.address,
      purpose: options.purpose,
      handlers: options.handlers,
      ...(options.expect === undefined ? {} : { expect: options.expect }),
      onOpened: (link) => {
        signal?.removeEventListener("abort", cancel);
        resolve(link);
      },
      onFailed: (reason) => {
        signal?.removeEventListener("abort", cancel);
        reject(connectFailure(reason));
      },
    });
    connection.attach(connectSocket(address, connection, path), HANDSHAKE_FACTOR * context.timers.linkConnectTimeoutMs);
    if (signal?.aborted === true) cancel();
    else signal?.addEventListener("abort", cancel, { once: true });
  });
}

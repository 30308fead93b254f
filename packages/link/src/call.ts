import { SluiceError } from "@sluice/core/model";
import { EMPTY } from "./frame.ts";
import type { Link } from "./link.ts";
import type { Codec } from "./messages/codec.ts";

export interface Answer<A> {
  readonly message: A;
  readonly payload: Uint8Array;
  /** Give it back with `link.release` when the payload is done with. */
  readonly creditBytes: number;
}
/**
 * One request as a promise, for calls that are not on the hot path. Rejects with the failure's code: LINK_DOWN and OVERLOADED
 * when nothing was sent, OUTCOME_UNKNOWN and TIMED_OUT when it may have been, the peer's code when it answered with an error frame.
 */
export function call<Q, A>(
  link: Link,
  request: Codec<Q>,
  message: Readonly<Q>,
  answer: Codec<A>,
  timeoutMs: number,
  payload: Uint8Array = EMPTY,
): Promise<Answer<A>> {
  return new Promise((resolve, reject) => {
    const taken = link.request(request, message, payload, timeoutMs, (frame, failure) => {
      if (frame === undefined) {
        reject(new SluiceError(failure?.code ?? "INTERNAL", failure?.message ?? "", { cause: failure }));
        return;
      }
      const { payload: body, creditBytes } = frame;
      if (frame.type !== answer.type) {
        link.release(creditBytes);
        reject(new SluiceError("MALFORMED_FRAME", `answer of type ${frame.type}, expected ${answer.type}`));
        return;
      }
      let decoded: A;
      try {
        decoded = answer.decode(frame, answer.create());
      } catch (error) {
        reject(error as Error);
        throw error;
      }
      resolve({ message: decoded, payload: body, creditBytes });
    });
    if (!taken) reject(new SluiceError(link.closed ? "LINK_DOWN" : "OVERLOADED", `the link to ${link.address} takes no request now`));
  });
}

/**
 * Why bytes are no message, or a message no bytes.
 *
 * MALFORMED: lengths, counts or nulls that the format does not allow. TOO_LARGE: more elements than a message may have.
 * UNSUPPORTED_VERSION: the message has no such version. NOT_IN_VERSION: a value that the version cannot carry and that must not be left out.
 */
export type WireErrorCode = "MALFORMED" | "TOO_LARGE" | "UNSUPPORTED_VERSION" | "NOT_IN_VERSION";

/** The one error of this package. Match by `code`. */
export class WireError extends Error {
  readonly code: WireErrorCode;
  constructor(code: WireErrorCode, message: string) {
    super(message);
    this.name = "WireError";
    this.code = code;
  }
}

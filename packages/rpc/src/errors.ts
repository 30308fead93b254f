import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { anyPack, anyUnpack } from "@bufbuild/protobuf/wkt";
import { Metadata, type ServiceError, status as grpcStatus, type StatusObject } from "@grpc/grpc-js";
import { type ErrorCode, errorCatalogue, isSluiceError, SluiceError } from "@sluice/core/model";
import { ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.ts";
import { StatusSchema } from "./gen/google/rpc/status_pb.ts";

/** The one place where errors become gRPC status and the reverse. */

const DETAILS_KEY = "grpc-status-details-bin";
const DOMAIN = "sluice";
const MESSAGE_CHARS_MAX = 1_024;
const DETAILS_BYTES_MAX = 8 * 1_024;

/** A SluiceError becomes its status with ErrorInfo (reason = code); anything else INTERNAL, and its text stays here. */
export function toStatus(error: unknown): StatusObject {
  const code: ErrorCode = isSluiceError(error) ? error.code : "INTERNAL";
  const throttleMs = isSluiceError(error) ? error.throttleMs : 0;
  const message = isSluiceError(error) ? error.message.slice(0, MESSAGE_CHARS_MAX) : "internal error; the server's log has the cause";
  const entry = errorCatalogue[code];
  const details = [
    anyPack(
      ErrorInfoSchema,
      create(ErrorInfoSchema, {
        reason: code,
        domain: DOMAIN,
        metadata: {
          ...(isSluiceError(error) ? error.details : {}),
          retriable: String(entry.retriable),
          hint: entry.hint,
          throttleMs: String(throttleMs),
          number: String(entry.number),
        },
      }),
    ),
  ];
  if (throttleMs > 0) {
    const retryDelay = { seconds: BigInt(Math.floor(throttleMs / 1_000)), nanos: Math.round((throttleMs % 1_000) * 1e6) };
    details.push(anyPack(RetryInfoSchema, create(RetryInfoSchema, { retryDelay })));
  }
  const number = grpcStatus[entry.grpc];
  const metadata = new Metadata();
  metadata.set(DETAILS_KEY, Buffer.from(toBinary(StatusSchema, create(StatusSchema, { code: number, message, details }))));
  return { code: number, details: message, metadata };
}

/** What a client throws: the server's own error when it named one, otherwise the nearest of the catalogue. */
export function fromStatus(
  status: Pick<StatusObject, "code" | "details"> & { readonly metadata?: Metadata | null },
  cause?: unknown,
): SluiceError {
  const named = readErrorInfo(status.metadata ?? undefined);
  if (named !== undefined)
    return new SluiceError(named.code, status.details, { throttleMs: named.throttleMs, details: named.details, cause });
  const code = codeOfBareStatus(status.code, status.details);
  return new SluiceError(code, describe(code, status.details), { cause });
}
/** In words of ours where grpc-js tells of its own insides. */
function describe(code: ErrorCode, details: string): string {
  if (code === "UNREACHABLE" && NO_HTTP2.test(details)) return NOT_GRPC;
  const deadline = DEADLINE.exec(details);
  if (code !== "TIMED_OUT" || deadline === null) return details;
  const within = `within ${Number(deadline[1]).toFixed(1)} s`;
  const peer = /remote_addr=([^,\s]+)/.exec(details)?.[1];
  return peer === undefined ? `no connection ${within}` : `no answer from ${peer} ${within}`;
}
/** `Deadline exceeded after 2.003s,LB pick: 0.001s,remote_addr=127.0.0.1:7070` */
const DEADLINE = /^Deadline exceeded after ([\d.]+)s/;
/** What grpc-js says of a peer whose first bytes are no HTTP/2. */
const NO_HTTP2 = /Last error: (Protocol error|Parse Error)/;
const NOT_GRPC = "the peer accepts connections but does not speak gRPC (HTTP/2): is this the right port?";
/** Errors of grpc-js calls; others pass through as they are when they are ours, and as INTERNAL when they are not. */
export function fromGrpcError(error: unknown): SluiceError {
  if (isSluiceError(error)) return error;
  if (typeof error === "object" && error !== null && "code" in error && typeof error.code === "number") {
    const e = error as ServiceError;
    return fromStatus({ code: e.code, details: e.details ?? e.message, metadata: e.metadata }, error);
  }
  return new SluiceError("INTERNAL", String(error), { cause: error });
}

interface NamedError {
  readonly code: ErrorCode;
  readonly throttleMs: number;
  readonly details: Readonly<Record<string, string>>;
}
function readErrorInfo(metadata: Metadata | undefined): NamedError | undefined {
  const raw = metadata?.get(DETAILS_KEY)[0];
  if (raw === undefined || typeof raw === "string" || raw.byteLength > DETAILS_BYTES_MAX) return undefined;
  try {
    for (const detail of fromBinary(StatusSchema, raw).details) {
      const info = anyUnpack(detail, ErrorInfoSchema);
      if (info?.domain !== DOMAIN || !Object.hasOwn(errorCatalogue, info.reason)) continue;
      const { retriable: _r, hint: _h, number: _n, throttleMs: throttle, ...details } = info.metadata;
      const throttleMs = Number(throttle ?? 0);
      return { code: info.reason as ErrorCode, throttleMs: Number.isFinite(throttleMs) && throttleMs > 0 ? throttleMs : 0, details };
    }
  } catch {
    // Not ours: the bare status decides.
  }
  return undefined;
}

/** A status without ErrorInfo comes from grpc-js itself, a proxy on the way, or another implementation. */
function codeOfBareStatus(code: grpcStatus, details: string): ErrorCode {
  switch (code) {
    case grpcStatus.CANCELLED:
      return "CANCELLED";
    case grpcStatus.DEADLINE_EXCEEDED:
      return "TIMED_OUT";
    case grpcStatus.UNAVAILABLE:
      // Refused before anything was sent, or lost in the middle: only the first is known not to have happened.
      return /^(No connection established|Name resolution failed|Failed to connect)/.test(details) ? "UNREACHABLE" : "OUTCOME_UNKNOWN";
    case grpcStatus.RESOURCE_EXHAUSTED:
      return /larger than max|max frame|message size/i.test(details) ? "FRAME_TOO_LARGE" : "OVERLOADED";
    case grpcStatus.INVALID_ARGUMENT:
    case grpcStatus.OUT_OF_RANGE:
      return "INVALID_ARGUMENT";
    case grpcStatus.UNIMPLEMENTED:
      return "VERSION_MISMATCH";
    case grpcStatus.UNAUTHENTICATED:
      return "UNAUTHENTICATED";
    case grpcStatus.PERMISSION_DENIED:
      return "PERMISSION_DENIED";
    case grpcStatus.INTERNAL:
      return /RST_STREAM|stream closed|connection/i.test(details) ? "OUTCOME_UNKNOWN" : "INTERNAL";
    default:
      return "INTERNAL";
  }
}

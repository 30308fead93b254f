import {
  apis,
  beginResponse,
  LEGACY_PRODUCE_MAX,
  readRequestHeaderRest,
  readRequestPrefix,
  refuseLegacyProduce,
  REQUEST_PREFIX_BYTES,
  Writer,
  type MessageType,
  type RequestPrefix,
} from "@sluice/kafka-wire";
import { SluiceError } from "@sluice/core/model";
import type { AnyHandler } from "./api.ts";
import { KafkaError } from "./errors.ts";

/**
 * How a request is answered. "probe": an ApiVersions request of a version that nobody knows, answered in the layout of version 0 without a look
 * at its message. "legacy": a Produce of a version that is told to clients and not served.
 */
export type RequestKind = "served" | "probe" | "legacy";

/** A request whose header was read and whose message was not. */
export interface ReceivedRequest extends RequestPrefix {
  readonly handler: AnyHandler;
  readonly frame: Uint8Array;
  readonly kind: RequestKind;
}

/** The APIs of a listener by number. */
export class ApiTable {
  readonly #byKey = new Map<number, AnyHandler>();
  constructor(handlers: readonly AnyHandler[]) {
    for (const handler of handlers) {
      if (this.#byKey.has(handler.api.key)) throw new Error(`two handlers for ${handler.api.name}`);
      this.#byKey.set(handler.api.key, handler);
    }
  }
  get handlers(): readonly AnyHandler[] {
    return [...this.#byKey.values()];
  }

  /** Throws UNKNOWN_FRAME for an API or version that is not served, WireError for a header that is cut off. */
  receive(frame: Uint8Array): ReceivedRequest {
    const prefix = readRequestPrefix(frame, 0, frame.length);
    const handler = this.#byKey.get(prefix.apiKey);
    const kind = handler === undefined ? undefined : kindOf(handler, prefix.apiVersion);
    if (handler === undefined || kind === undefined)
      throw new SluiceError("UNKNOWN_FRAME", `version ${prefix.apiVersion} of API ${prefix.apiKey} is not served`);
    return { ...prefix, handler, frame, kind };
  }
}
function kindOf({ api }: AnyHandler, version: number): RequestKind | undefined {
  if (version >= api.request.min && version <= api.request.max) return "served";
  if (api.key === apis.ApiVersions.key) return "probe";
  return api.key === apis.Produce.key && version >= 0 && version <= LEGACY_PRODUCE_MAX ? "legacy" : undefined;
}

export interface DecodedRequest {
  readonly clientId: string;
  readonly message: unknown;
}
/** Throws WireError. */
export function decodeRequest({ handler, frame, apiVersion }: ReceivedRequest): DecodedRequest {
  const request = handler.api.request as MessageType<unknown>;
  const { clientId, bodyAt } = readRequestHeaderRest(frame, REQUEST_PREFIX_BYTES, frame.length, request.isFlexible(apiVersion));
  return { clientId: clientId ?? "", message: request.decode(apiVersion, frame, bodyAt) };
}

export interface EncodedResponse {
  readonly chunks: readonly Uint8Array[];
  readonly bytes: number;
}
export function encodeResponse({ handler, apiKey, apiVersion, correlationId }: ReceivedRequest, message: object): EncodedResponse {
  const response = handler.api.response as MessageType<unknown>;
  const writer = new Writer();
  beginResponse(writer, apiKey, correlationId, response.isFlexible(apiVersion));
  response.encode(apiVersion, message, writer);
  return finish(writer);
}
/** To whoever asked with an unknown version of ApiVersions: error 35 and what is spoken, so that it can ask again. */
export function encodeProbeResponse({ correlationId }: ReceivedRequest): EncodedResponse {
  const { key, request, response } = apis.ApiVersions;
  const writer = new Writer();
  beginResponse(writer, key, correlationId, false);
  const own = { apiKey: key, minVersion: request.min, maxVersion: request.max };
  response.encode(0, { errorCode: KafkaError.unsupportedVersion, apiKeys: [own] }, writer);
  return finish(writer);
}
/** Undefined: the client wants no answer. Throws WireError. */
export function encodeLegacyResponse({ apiKey, apiVersion, correlationId, frame }: ReceivedRequest): EncodedResponse | undefined {
  const { bodyAt } = readRequestHeaderRest(frame, REQUEST_PREFIX_BYTES, frame.length, false);
  const writer = new Writer();
  beginResponse(writer, apiKey, correlationId, false);
  return refuseLegacyProduce(apiVersion, frame, bodyAt, KafkaError.unsupportedVersion, writer) ? finish(writer) : undefined;
}
function finish(writer: Writer): EncodedResponse {
  const bytes = writer.length;
  writer.setFrameLength();
  return { chunks: writer.finish(), bytes };
}

import type { MessageType } from "./message.ts";
import { Reader } from "./reader.ts";
import type { Writer } from "./writer.ts";

/**
 * A frame: int32 length, then a header, then a message.
 *
 *   request header v1   int16 apiKey, int16 apiVersion, int32 correlationId, nullable string clientId
 *   request header v2   the same (the client id keeps its int16 length), then tagged fields
 *   response header v0  int32 correlationId
 *   response header v1  the same, then tagged fields
 *
 * v2 and v1 go with flexible messages, with one exception: the answer to ApiVersions has header v0 always, since whoever asks does not know
 * yet what the other side speaks.
 */
export const FRAME_LENGTH_BYTES = 4;
/** apiKey, apiVersion and correlationId: what every request begins with, whatever comes behind. */
export const REQUEST_PREFIX_BYTES = 8;
const API_VERSIONS_KEY = 18;

export interface RequestPrefix {
  readonly apiKey: number;
  readonly apiVersion: number;
  readonly correlationId: number;
}
/** The start of a request, which even an unknown API or version has. Throws WireError MALFORMED. */
export function readRequestPrefix(bytes: Uint8Array, at: number, end: number): RequestPrefix {
  const reader = new Reader(bytes, at, end, 0);
  return { apiKey: reader.int16(), apiVersion: reader.int16(), correlationId: reader.int32() };
}

export interface HeaderRest {
  readonly clientId: string | null;
  /** Where the message begins. */
  readonly bodyAt: number;
}
/** What follows the prefix. Throws WireError MALFORMED. */
export function readRequestHeaderRest(bytes: Uint8Array, at: number, end: number, flexible: boolean): HeaderRest {
  const reader = new Reader(bytes, at, end, 0);
  const length = reader.stringLength(false);
  const clientId = length < 0 ? null : reader.text(length);
  if (flexible) skipTags(reader);
  return { clientId, bodyAt: reader.at };
}
function skipTags(reader: Reader): void {
  for (let count = reader.uvarint(); count > 0; count -= 1) {
    reader.uvarint();
    reader.skip(reader.uvarint());
  }
}

/** Room for the frame's length, then the header of an answer; `writer.setFrameLength()` completes it. */
export function beginResponse(writer: Writer, apiKey: number, correlationId: number, flexible: boolean): void {
  writer.int32(0);
  writer.int32(correlationId);
  if (flexible && apiKey !== API_VERSIONS_KEY) writer.uvarint(0);
}
/** The same for a request, for clients and tests. */
export function beginRequest(writer: Writer, prefix: RequestPrefix, clientId: string | null, flexible: boolean): void {
  writer.int32(0);
  writer.int16(prefix.apiKey);
  writer.int16(prefix.apiVersion);
  writer.int32(prefix.correlationId);
  writer.string(clientId, false);
  if (flexible) writer.uvarint(0);
}
/** Where the message of an answer begins, and whose it is. `bytes` is a frame without its length. */
export function readResponseHeader(bytes: Uint8Array, apiKey: number, flexible: boolean): { correlationId: number; bodyAt: number } {
  const reader = new Reader(bytes, 0, bytes.length, 0);
  const correlationId = reader.int32();
  if (flexible && apiKey !== API_VERSIONS_KEY) skipTags(reader);
  return { correlationId, bodyAt: reader.at };
}

export interface Api<Request, Response> {
  readonly key: number;
  readonly name: string;
  readonly request: MessageType<Request>;
  readonly response: MessageType<Response>;
}

import { noteBufferAllocated } from "@sluice/runtime/buffer-gc";
import { create, type DescMessage, fromBinary, type MessageInitShape, type MessageShape, toBinary } from "@bufbuild/protobuf";

/** Turns messages into bytes and back. `decode` gets a view that stays valid. */
export interface Codec<In, Out = In> {
  encode(value: In): Uint8Array | Gathered;
  decode(bytes: Uint8Array): Out;
}

/**
 * Bytes in several parts, written into the HTTP/2 frame one after the other: header and payload need no buffer that joins them.
 * grpc-js asks a serialized message for its length and then for `copy(target, 5)`, nothing else (tested).
 */
export class Gathered {
  readonly length: number;
  readonly byteLength: number;
  readonly #parts: readonly Uint8Array[];
  constructor(parts: readonly Uint8Array[]) {
    this.#parts = parts;
    let length = 0;
    for (const part of parts) length += part.byteLength;
    this.length = length;
    this.byteLength = length;
  }
  copy(target: Uint8Array, at: number): number {
    for (const part of this.#parts) {
      target.set(part, at);
      at += part.byteLength;
    }
    return this.length;
  }
}

/** Bytes as they are: for methods whose messages are encoded and decoded by hand. */
export const rawCodec: Codec<Uint8Array | Gathered, Uint8Array> = { encode: (value) => value, decode: (bytes) => bytes };

/** The message of a schema; encode takes the plain initial form as well. */
export function messageCodec<D extends DescMessage>(schema: D): Codec<MessageInitShape<D>, MessageShape<D>> {
  return {
    encode: (value) => toBinary(schema, create(schema, value)),
    decode: (bytes) => fromBinary(schema, bytes),
  };
}

const DECODE_FAILED = Symbol("decode failed");
interface DecodeFailure {
  readonly [DECODE_FAILED]: unknown;
}
/**
 * A malformed message must become the catalogue's error and not grpc-js's INTERNAL, so decoding never throws inside grpc-js: the failure
 * travels as a value and `decoded` throws it where the handler reads.
 */
export function guardedDecode<Out>(codec: Codec<never, Out>): (bytes: Buffer) => Out {
  return (bytes) => {
    // Of the frames that it came in, and of the whole that was made of them.
    noteBufferAllocated(2 * bytes.length);
    try {
      return codec.decode(bytes);
    } catch (cause) {
      return { [DECODE_FAILED]: cause } as Out;
    }
  };
}
export const decodeFailure = (message: unknown): DecodeFailure | undefined =>
  typeof message === "object" && message !== null && DECODE_FAILED in message ? (message as DecodeFailure) : undefined;
export const failureCause = (failure: DecodeFailure): unknown => failure[DECODE_FAILED];

/** For grpc-js, which copies out of what it gets. */
export function encodeFor(codec: Codec<never, unknown>): (value: unknown) => Buffer {
  return (value) => {
    const bytes = codec.encode(value as never);
    // grpc-js copies it behind its own head.
    noteBufferAllocated(bytes.length);
    if (Buffer.isBuffer(bytes)) return bytes;
    if (bytes instanceof Gathered) return bytes as unknown as Buffer;
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  };
}

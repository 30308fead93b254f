import { decodeStruct } from "./decode.ts";
import { encodeStruct } from "./encode.ts";
import { WireError } from "./error.ts";
import { planMessage, type StructPlan, type StructValue } from "./plan.ts";
import { Reader } from "./reader.ts";
import { inRange, type MessageSchema } from "./schema.ts";
import type { Writer } from "./writer.ts";

/** Array elements of one message: what a small frame may cost in objects. */
export const WIRE_ELEMENTS_MAX = 200_000;

/**
 * What may be given to an encoder: fields that are left out have their defaults, and bytes may come in several pieces that follow one another.
 */
export type Input<T> = T extends Uint8Array
  ? T | readonly Uint8Array[]
  : T extends readonly (infer E)[]
    ? readonly Input<E>[]
    : T extends object
      ? { readonly [K in keyof T]?: Input<T[K]> | undefined }
      : T;

/** One message in all its versions. Offsets, times and ids are doubles, uuids 36 characters, records views of the buffer they came in. */
export interface MessageType<T> {
  readonly name: string;
  readonly min: number;
  readonly max: number;
  /** Compact lengths and tagged fields; decides on the version of the header too. */
  isFlexible(version: number): boolean;
  /** Throws WireError UNSUPPORTED_VERSION, MALFORMED, TOO_LARGE. Bytes behind the message are ignored, as newer clients may send them. */
  decode(version: number, bytes: Uint8Array, at?: number, end?: number): T;
  /** Throws WireError UNSUPPORTED_VERSION, NOT_IN_VERSION. */
  encode(version: number, value: Input<T>, writer: Writer): void;
}

export class Message<T> implements MessageType<T> {
  readonly name: string;
  readonly #schema: MessageSchema;
  readonly #plans: StructPlan[] = [];

  constructor(schema: MessageSchema) {
    this.name = schema.name;
    this.#schema = schema;
  }
  get min(): number {
    return this.#schema.versions.from;
  }
  get max(): number {
    return this.#schema.versions.to;
  }
  isFlexible(version: number): boolean {
    return inRange(this.#schema.flexible, version);
  }
  decode(version: number, bytes: Uint8Array, at = 0, end = bytes.length): T {
    return decodeStruct(new Reader(bytes, at, end, WIRE_ELEMENTS_MAX), this.#plan(version)) as T;
  }
  encode(version: number, value: Input<T>, writer: Writer): void {
    encodeStruct(writer, this.#plan(version), value as StructValue);
  }

  /** Made at the first use of a version. */
  #plan(version: number): StructPlan {
    const known = this.#plans[version];
    if (known !== undefined) return known;
    if (!Number.isInteger(version) || !inRange(this.#schema.versions, version))
      throw new WireError("UNSUPPORTED_VERSION", `${this.name} has the versions ${this.min} to ${this.max}, not ${version}`);
    return (this.#plans[version] = planMessage(this.#schema, version));
  }
}

import { limits, SluiceError } from "../model/index.ts";
import { attributeBits, BATCH_HEADER_BYTES, writeBatchHeader } from "./batch.ts";
import type { Crc32c } from "./checksum.ts";
import { codecs as codecNumbers } from "./compression.ts";
import type { Codec, Codecs } from "./compression.ts";
import type { RecordHeader } from "./records.ts";
import { isVarlong, varintBytes, varlongBytes, writeVarint, writeVarlong } from "./varint.ts";

/** Fixed when the batch is sent. Left out: no producer (-1), offset 0, epoch -1: what a plain producer sends. */
export interface BatchClose {
  readonly producerId?: number;
  readonly producerEpoch?: number;
  readonly baseSequence?: number;
  readonly baseOffset?: number;
  readonly partitionLeaderEpoch?: number;
  readonly isTransactional?: boolean;
  readonly isControl?: boolean;
}
export interface BatchBuilderOptions {
  readonly crc32c: Crc32c;
  readonly codecs: Codecs;
  readonly codec?: Codec;
  /** Of the whole batch before compression. Default: the default of `max.message.bytes`. */
  readonly bytesMax?: number;
}

const NO_HEADERS: readonly RecordHeader[] = [];
const FIRST_BYTES = 1024;

/**
 * Encodes records into one batch:
 *
 *   [61 bytes left for the header][record][record]...      grows by doubling up to bytesMax
 *
 * `close` compresses what lies behind the header (kept plain when that does not make it smaller) and writes the header. Usable again after `close`.
 */
export class BatchBuilder {
  readonly #options: BatchBuilderOptions;
  readonly #bytesMax: number;
  #bytes: Uint8Array = new Uint8Array(0);
  #at = BATCH_HEADER_BYTES;
  #count = 0;
  #baseTimestamp = -1;
  #maxTimestamp = -1;

  constructor(options: BatchBuilderOptions) {
    this.#options = options;
    this.#bytesMax = options.bytesMax ?? limits.messageBytesDefault;
  }
  get count(): number {
    return this.#count;
  }
  /** Bytes of the batch if it were closed now without compression: never less than the closed batch. */
  get estimatedBytes(): number {
    return this.#at;
  }
  get isEmpty(): boolean {
    return this.#count === 0;
  }

  /**
   * Adds a record; `timestampMs` -1 = none. False = the batch is full: close it and add the record to the next one.
   * Throws MESSAGE_TOO_LARGE for a record that no batch can hold, INVALID_RECORD for one with too many headers, INVALID_TIMESTAMP.
   */
  tryAppend(timestampMs: number, key: Uint8Array | null, value: Uint8Array | null, headers: readonly RecordHeader[] = NO_HEADERS): boolean {
    if (!Number.isSafeInteger(timestampMs) || timestampMs < -1) throw new SluiceError("INVALID_TIMESTAMP", `record time ${timestampMs}`);
    const delta = this.#count === 0 ? 0 : timestampMs - this.#baseTimestamp;
    if (!isVarlong(delta)) throw new SluiceError("INVALID_TIMESTAMP", `record time ${timestampMs} is too far from the first of its batch`);
    const body = 1 + varlongBytes(delta) + varintBytes(this.#count) + fieldBytes(key) + fieldBytes(value) + headersBytes(headers);
    const size = varintBytes(body) + body;
    if (this.#at + size > this.#bytesMax || this.#count >= limits.recordsPerBatchMax) {
      if (this.#count > 0) return false;
      throw new SluiceError("MESSAGE_TOO_LARGE", `a record of ${size} bytes does not fit a batch of ${this.#bytesMax} bytes`);
    }
    this.#reserve(size);
    this.#write(body, delta, key, value, headers);
    if (this.#count === 0) this.#baseTimestamp = timestampMs;
    if (timestampMs > this.#maxTimestamp) this.#maxTimestamp = timestampMs;
    this.#count++;
    return true;
  }

  /** The batch; the builder is empty again and keeps no hold on the bytes. Throws INVALID_ARGUMENT when there is no record. */
  close(fields: BatchClose = {}): Uint8Array {
    if (this.#count === 0) throw new SluiceError("INVALID_ARGUMENT", "a batch needs a record");
    const plain = this.#bytes.subarray(BATCH_HEADER_BYTES, this.#at);
    let codec: Codec = this.#options.codec ?? codecNumbers.none;
    let batch = this.#bytes.subarray(0, this.#at);
    if (codec !== codecNumbers.none) {
      const packed = this.#options.codecs.compress(codec, plain);
      if (packed.length < plain.length) {
        batch = new Uint8Array(BATCH_HEADER_BYTES + packed.length);
        batch.set(packed, BATCH_HEADER_BYTES);
      } else codec = codecNumbers.none;
    }
    const attributes =
      codec | (fields.isTransactional === true ? attributeBits.transactional : 0) | (fields.isControl === true ? attributeBits.control : 0);
    const header = {
      baseOffset: fields.baseOffset ?? 0,
      totalBytes: batch.length,
      partitionLeaderEpoch: fields.partitionLeaderEpoch ?? -1,
      attributes,
      lastOffsetDelta: this.#count - 1,
      baseTimestamp: this.#baseTimestamp,
      maxTimestamp: this.#maxTimestamp,
      producerId: fields.producerId ?? -1,
      producerEpoch: fields.producerEpoch ?? -1,
      baseSequence: fields.baseSequence ?? -1,
      recordsCount: this.#count,
    };
    writeBatchHeader(batch, 0, header, this.#options.crc32c);
    this.reset(codec === codecNumbers.none);
    return batch;
  }

  /** Drops what was added. The buffer is kept for the next batch unless it was given away. */
  reset(dropBuffer = false): void {
    if (dropBuffer) this.#bytes = new Uint8Array(0);
    this.#at = BATCH_HEADER_BYTES;
    this.#count = 0;
    this.#baseTimestamp = -1;
    this.#maxTimestamp = -1;
  }

  #reserve(size: number): void {
    const need = this.#at + size;
    if (need <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.min(this.#bytesMax, Math.max(need, this.#bytes.length * 2, FIRST_BYTES)));
    grown.set(this.#bytes.subarray(0, this.#at));
    this.#bytes = grown;
  }

  #write(body: number, delta: number, key: Uint8Array | null, value: Uint8Array | null, headers: readonly RecordHeader[]): void {
    const b = this.#bytes;
    let at = writeVarint(b, this.#at, body);
    b[at++] = 0;
    at = writeVarlong(b, at, delta);
    at = writeVarint(b, at, this.#count);
    at = writeField(b, at, key);
    at = writeField(b, at, value);
    at = writeVarint(b, at, headers.length);
    for (const header of headers) at = writeField(b, writeField(b, at, header.key), header.value);
    this.#at = at;
  }
}

const fieldBytes = (field: Uint8Array | null): number => (field === null ? 1 : varintBytes(field.length) + field.length);
function writeField(b: Uint8Array, at: number, field: Uint8Array | null): number {
  if (field === null) return writeVarint(b, at, -1);
  const from = writeVarint(b, at, field.length);
  b.set(field, from);
  return from + field.length;
}
function headersBytes(headers: readonly RecordHeader[]): number {
  let bytes = 0;
  for (const header of headers) bytes += fieldBytes(header.key) + fieldBytes(header.value);
  if (headers.length > limits.headersPerRecordMax)
    throw new SluiceError("INVALID_RECORD", `${headers.length} headers, the limit is ${limits.headersPerRecordMax}`);
  if (bytes > limits.headerBytesPerRecordMax)
    throw new SluiceError("INVALID_RECORD", `${bytes} bytes of headers, the limit is ${limits.headerBytesPerRecordMax}`);
  return varintBytes(headers.length) + bytes;
}

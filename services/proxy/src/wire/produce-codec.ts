import { fromBinary } from "@bufbuild/protobuf";
import { sampledTraceParent } from "@sluice/core/log";
import { RecordSetSchema, type RecordSet } from "@sluice/proto/v1/records";
import type { Codec } from "@sluice/rpc";
import { ProtobufReader, ProtobufWriter, wireTypes } from "./protobuf.ts";

/**
 * `sluice.v1.ProduceStreamRequest` and `ProduceStreamResponse` by hand: the batch is a view of the received bytes, and no object or
 * BigInt is made for a number. Same bytes on the wire as the generated code.
 */
export interface StreamProduce {
  readonly id: number;
  /** "" = as in the message before. */
  readonly topic: string;
  readonly partition: number;
  readonly batch: Uint8Array | undefined;
  readonly records: RecordSet | undefined;
  /** -1 = none. */
  readonly expectedBaseOffset: number;
  readonly fenceToken: number;
  /** Of a message that is being recorded. */
  readonly trace: Uint8Array | undefined;
}
export interface StreamProduced {
  readonly id: number;
  readonly error: number;
  readonly errorMessage: string;
  readonly partition: number;
  readonly baseOffset: number;
  readonly lastOffset: number;
  readonly appendTimeMs: number;
  readonly logStartOffset: number;
  readonly throttleMs: number;
  readonly throttleReason: string;
}
const utf8 = new TextDecoder("utf-8", { fatal: true });
const { varint, bytes: lengthDelimited } = wireTypes;

export function decodeStreamProduce(bytes: Uint8Array): StreamProduce {
  const r = new ProtobufReader(bytes);
  let id = 0;
  let topic = "";
  let partition = 0;
  let batch: Uint8Array | undefined;
  let records: RecordSet | undefined;
  let expectedBaseOffset = -1;
  let fenceToken = -1;
  let trace: Uint8Array | undefined;
  while (r.next()) {
    switch (r.field) {
      case 1:
        r.expect(varint);
        id = r.uint32();
        break;
      case 2:
        r.expect(lengthDelimited);
        topic = utf8.decode(r.view());
        break;
      case 3:
        r.expect(varint);
        partition = r.int32();
        break;
      case 4:
        r.expect(lengthDelimited);
        records = fromBinary(RecordSetSchema, r.view());
        batch = undefined;
        break;
      case 5:
        r.expect(lengthDelimited);
        batch = r.view();
        records = undefined;
        break;
      case 6:
        r.expect(varint);
        expectedBaseOffset = r.int64();
        break;
      case 7:
        r.expect(varint);
        fenceToken = r.int64();
        break;
      case 8:
        r.expect(lengthDelimited);
        trace = sampledTraceParent(utf8.decode(r.view()));
        break;
      default:
        r.skip();
    }
  }
  return { id, topic, partition, batch, records, expectedBaseOffset, fenceToken, trace };
}

export function encodeStreamProduced(m: StreamProduced): Uint8Array {
  const w = new ProtobufWriter();
  w.uint32(1, m.id);
  w.uint32(2, m.error);
  w.string(3, m.errorMessage);
  w.int64(4, m.partition);
  w.int64(5, m.baseOffset);
  w.int64(6, m.lastOffset);
  w.int64(7, m.appendTimeMs);
  w.int64(8, m.logStartOffset);
  w.uint32(9, m.throttleMs);
  w.string(10, m.throttleReason);
  return w.finish();
}

export const streamProduceCodec: Codec<Uint8Array, StreamProduce> = { encode: (bytes) => bytes, decode: decodeStreamProduce };
export const streamProducedCodec: Codec<StreamProduced, Uint8Array> = { encode: encodeStreamProduced, decode: (bytes) => bytes };

import { describe, expect, test } from "@jest/globals";
import {
  apiRanges,
  apis,
  beginRequest,
  beginResponse,
  readRequestHeaderRest,
  readRequestPrefix,
  readResponseHeader,
  Writer,
  ZERO_UUID,
} from "../src/index.ts";

const TOPIC_ID = "0f8fad5b-d9cb-469f-a165-70867728950e";

describe("messages", () => {
  test("records of a produce request are views of the frame", () => {
    const records = new Uint8Array(5_000).fill(7);
    const writer = new Writer();
    apis.Produce.request.encode(
      9,
      { acks: -1, timeoutMs: 1_000, topicData: [{ name: "t", partitionData: [{ index: 3, records }] }] },
      writer,
    );
    const frame = writer.toBytes();
    const read = apis.Produce.request.decode(9, frame).topicData[0]?.partitionData[0]?.records;
    expect(read).toEqual(records);
    expect(read?.buffer).toBe(frame.buffer);
  });

  test("records of a fetch response stay where they are, in one piece or several", () => {
    const first = new Uint8Array(2_000).fill(1);
    const second = new Uint8Array(3_000).fill(2);
    const writer = new Writer();
    beginResponse(writer, apis.Fetch.key, 77, true);
    apis.Fetch.response.encode(
      13,
      { responses: [{ topicId: TOPIC_ID, partitions: [{ partitionIndex: 0, highWatermark: 10, records: [first, second] }] }] },
      writer,
    );
    writer.setFrameLength();
    const chunks = writer.finish();
    expect(chunks.filter((chunk) => chunk === first || chunk === second)).toEqual([first, second]);
    const frame = Buffer.concat(chunks);
    expect(frame.readInt32BE(0)).toBe(frame.length - 4);
    const body = frame.subarray(4);
    const { correlationId, bodyAt } = readResponseHeader(body, apis.Fetch.key, true);
    expect(correlationId).toBe(77);
    const read = apis.Fetch.response.decode(13, body, bodyAt).responses[0];
    expect(read?.topicId).toBe(TOPIC_ID);
    expect(Buffer.compare(read?.partitions[0]?.records as Uint8Array, Buffer.concat([first, second]))).toBe(0);
  });

  test("fields that a version lacks have their defaults", () => {
    const writer = new Writer();
    apis.Fetch.request.encode(4, { replicaId: -1, maxWaitMs: 5, minBytes: 1 }, writer);
    const read = apis.Fetch.request.decode(4, writer.toBytes());
    expect(read.sessionEpoch).toBe(-1);
    expect(read.clusterId).toBeNull();
    expect(read.replicaState).toEqual({ replicaId: -1, replicaEpoch: -1 });
    expect(Object.keys(read)).toEqual(Object.keys(apis.Fetch.request.decode(12, encoded12())));
  });
  const encoded12 = (): Uint8Array => {
    const writer = new Writer();
    apis.Fetch.request.encode(12, { maxWaitMs: 5, minBytes: 1 }, writer);
    return writer.toBytes();
  };

  test("a value that the version cannot carry is refused, an optional one left out", () => {
    const encode = (value: Parameters<typeof apis.Fetch.request.encode>[1]) => () => apis.Fetch.request.encode(4, value, new Writer());
    expect(encode({ forgottenTopicsData: [{ topic: "t", partitions: [1] }] })).toThrow("cannot carry forgottenTopicsData");
    expect(encode({ sessionId: 9 })).not.toThrow();
  });

  test("zero uuids, negative numbers and the largest offset come through", () => {
    const writer = new Writer();
    const offset = Number.MAX_SAFE_INTEGER;
    apis.ListOffsets.response.encode(1, { topics: [{ name: "t", partitions: [{ timestamp: -1, offset }, { offset: -offset }] }] }, writer);
    const [a, b] = apis.ListOffsets.response.decode(1, writer.toBytes()).topics[0]!.partitions;
    expect([a?.timestamp, a?.offset, b?.offset]).toEqual([-1, offset, -offset]);
    const ids = new Writer();
    apis.Metadata.request.encode(12, { topics: [{ name: null }] }, ids);
    expect(apis.Metadata.request.decode(12, ids.toBytes()).topics?.[0]?.topicId).toBe(ZERO_UUID);
  });
});

describe("headers", () => {
  test("the client id keeps its two length bytes in flexible requests", () => {
    for (const flexible of [false, true]) {
      const writer = new Writer();
      beginRequest(writer, { apiKey: 3, apiVersion: 12, correlationId: 5 }, "app", flexible);
      writer.setFrameLength();
      const frame = writer.toBytes();
      expect([...frame.subarray(12, 17)]).toEqual([0, 3, 0x61, 0x70, 0x70]);
      expect(readRequestPrefix(frame, 4, frame.length)).toEqual({ apiKey: 3, apiVersion: 12, correlationId: 5 });
      expect(readRequestHeaderRest(frame, 12, frame.length, flexible)).toEqual({ clientId: "app", bodyAt: frame.length });
    }
  });

  test("answers to ApiVersions never have tagged fields in their header", () => {
    const lengthOf = (key: number, flexible: boolean): number => {
      const writer = new Writer();
      beginResponse(writer, key, 1, flexible);
      return writer.length;
    };
    expect([lengthOf(3, false), lengthOf(3, true), lengthOf(18, false), lengthOf(18, true)]).toEqual([8, 9, 8, 8]);
  });
});

describe("the table of APIs", () => {
  test("has for each API the versions of its messages", () => {
    for (const [name, { key, min, max }] of Object.entries(apiRanges)) {
      const api = apis[name as keyof typeof apis];
      expect([api.key, api.request.min, api.request.max, api.response.min, api.response.max]).toEqual([key, min, max, min, max]);
    }
  });
});

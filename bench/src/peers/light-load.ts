import { connect, type Socket } from "node:net";
import { apis, beginRequest, readResponseHeader, Writer } from "@sluice/kafka-wire";
import { makeBatch } from "../inner-load.ts";
import { MeasuredTime, type ChainResult, type ChainSpec } from "../measure.ts";

const VERSION = 9;
const { Produce } = apis;
const CORRELATION_AT = 8;

export interface LightTarget {
  /** host:port of a proxy's Kafka listener. */
  readonly kafka: string;
  readonly topic: string;
  readonly pids: readonly number[];
}

/**
 * A Kafka client that costs next to nothing: requests made once, of one batch each, sent over one connection with a fixed number of bytes in flight; of
 * an answer only the error is looked at. What it reaches is what the port can do.
 */
export async function runLight(spec: ChainSpec, target: LightTarget): Promise<ChainResult> {
  const batch = makeBatch(spec.batchBytes);
  const requests = Array.from({ length: spec.partitions }, (_, index) => produceRequest(target.topic, index, batch));
  const depth = Math.max(1, Math.floor(spec.inFlightBytes / spec.batchBytes));
  const sentAt: number[] = [];
  const time = new MeasuredTime(spec);
  let stopped = false;
  let sent = 0;
  let done = 0;
  let failure: Error | undefined;
  const socket = await opened(target.kafka);
  const fill = (): void => {
    if (stopped || failure !== undefined) return;
    socket.cork();
    while (sent - done < depth) {
      sentAt[sent % depth] = performance.now();
      socket.write(requests[sent % spec.partitions] as Uint8Array);
      sent += 1;
    }
    socket.uncork();
  };
  onFrames(socket, (frame) => {
    const code = errorOf(frame);
    if (code !== 0) failure ??= new Error(`a produce request ended with ${code}`);
    time.acknowledged(sentAt[done % depth] as number);
    done += 1;
    fill();
  });
  socket.on("close", () => (failure ??= stopped ? undefined : new Error("the proxy closed the connection")));
  fill();
  const result = await time.run(target.pids, batch.length);
  stopped = true;
  socket.destroy();
  if (failure !== undefined) throw failure;
  return result;
}

function produceRequest(name: string, index: number, records: Uint8Array): Uint8Array {
  const writer = new Writer();
  beginRequest(writer, { apiKey: Produce.key, apiVersion: VERSION, correlationId: 1 }, "bench", Produce.request.isFlexible(VERSION));
  Produce.request.encode(VERSION, { acks: -1, timeoutMs: 30_000, topicData: [{ name, partitionData: [{ index, records }] }] }, writer);
  writer.setFrameLength();
  return writer.toBytes();
}
function errorOf(frame: Buffer): number {
  const { bodyAt } = readResponseHeader(frame, Produce.key, Produce.response.isFlexible(VERSION));
  const { responses } = Produce.response.decode(VERSION, frame, bodyAt);
  return responses[0]?.partitionResponses[0]?.errorCode ?? -1;
}

function opened(address: string): Promise<Socket> {
  const [host = "", port] = address.split(":");
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port: Number(port), noDelay: true });
    socket.once("connect", () => resolve(socket)).once("error", reject);
  });
}
/** Frames without their lengths. */
function onFrames(socket: Socket, take: (frame: Buffer) => void): void {
  let rest: Buffer = Buffer.alloc(0);
  socket.on("data", (chunk: Buffer) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    while (rest.length >= CORRELATION_AT) {
      const length = rest.readInt32BE(0);
      if (rest.length < 4 + length) break;
      take(rest.subarray(4, 4 + length));
      rest = rest.subarray(4 + length);
    }
  });
}

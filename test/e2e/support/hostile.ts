import { connect as connectHttp2, constants } from "node:http2";
import { connect } from "node:net";
import { errorCodeOf, type ErrorCode } from "@sluice/core/model";
import { FRAME_HEAD_BYTES, FrameType } from "@sluice/link";

const ANSWER_MS = 15_000;
const QUIET_MS = 400;

export interface Answer {
  readonly bytes: Buffer;
  readonly closed: boolean;
}
const portOf = (address: string): number => Number(address.split(":").at(-1));

/** Sends bytes to a TCP port and waits until the peer closes, or has been quiet for a while. */
export function sendRaw(address: string, chunks: readonly Uint8Array[], quietMs = QUIET_MS): Promise<Answer> {
  return new Promise((resolve) => {
    const socket = connect(portOf(address), "127.0.0.1");
    const received: Buffer[] = [];
    let closed = false;
    const end = (): void => {
      clearTimeout(limit);
      clearTimeout(quiet);
      socket.destroy();
      resolve({ bytes: Buffer.concat(received), closed });
    };
    const limit = setTimeout(end, ANSWER_MS);
    let quiet = setTimeout(end, ANSWER_MS);
    socket.on("connect", () => {
      for (const chunk of chunks) socket.write(chunk);
      clearTimeout(quiet);
      quiet = setTimeout(end, quietMs);
    });
    socket.on("data", (chunk: Buffer) => {
      received.push(chunk);
      clearTimeout(quiet);
      quiet = setTimeout(end, quietMs);
    });
    socket.on("error", () => undefined);
    socket.on("close", () => {
      closed = true;
      end();
    });
  });
}

/** A link frame with lengths of the caller's choice. */
export function rawFrame(
  type: number,
  header: Uint8Array,
  payload: Uint8Array = new Uint8Array(0),
  length = 8 + header.length + payload.length,
): Buffer {
  const head = Buffer.alloc(FRAME_HEAD_BYTES);
  head.writeUInt32LE(length, 0);
  head.writeUInt8(type, 4);
  head.writeUInt16LE(header.length & 0xffff, 6);
  return Buffer.concat([head, header, payload]);
}
/** The code of the first error frame in what a link peer sent; undefined when there is none. */
export function linkErrorOf(answer: Answer): ErrorCode | undefined {
  const { bytes } = answer;
  for (let at = 0; at + FRAME_HEAD_BYTES <= bytes.length;) {
    if (bytes.readUInt8(at + 4) === FrameType.error) return errorCodeOf(bytes.readUInt16LE(at + FRAME_HEAD_BYTES));
    at += 4 + bytes.readUInt32LE(at);
  }
  return undefined;
}

/** One unary gRPC call whose request bytes the caller makes; the status number, or the HTTP/2 error. */
export function sendGrpc(address: string, path: string, body: Uint8Array): Promise<string> {
  return new Promise((resolve) => {
    const session = connectHttp2(`http://${address}`);
    let status = "";
    const end = (text: string): void => {
      clearTimeout(limit);
      session.destroy();
      resolve(status === "" ? text : status);
    };
    const limit = setTimeout(() => end("no answer"), ANSWER_MS);
    session.on("error", (error: Error) => end(error.message));
    const stream = session.request({
      [constants.HTTP2_HEADER_METHOD]: "POST",
      [constants.HTTP2_HEADER_PATH]: path,
      "content-type": "application/grpc",
      te: "trailers",
    });
    const look = (headers: Readonly<Record<string, unknown>>): void => {
      const value = headers["grpc-status"];
      if (typeof value === "string") status = value;
    };
    stream.on("response", look);
    stream.on("trailers", look);
    stream.on("error", () => undefined);
    // RESOURCE_EXHAUSTED is also told by the stream's end, as gRPC maps it.
    stream.on("close", () => end(stream.rstCode === constants.NGHTTP2_ENHANCE_YOUR_CALM ? "8" : `closed with ${stream.rstCode}`));
    stream.resume();
    stream.end(body);
  });
}
/** Compression flag and length, as the caller claims them. */
export function grpcMessage(message: Uint8Array, length = message.length, flag = 0): Buffer {
  const head = Buffer.alloc(5);
  head.writeUInt8(flag, 0);
  head.writeUInt32BE(length >>> 0, 1);
  return Buffer.concat([head, message]);
}

/** Streams of a connection that each send the first half of a message and never the rest, until closed. */
export function halfMessages(
  address: string,
  path: string,
  streams: number,
  messageBytes: number,
): { sent: Promise<number>; close(): void } {
  const session = connectHttp2(`http://${address}`);
  session.on("error", () => undefined);
  const half = grpcMessage(new Uint8Array(messageBytes / 2), messageBytes);
  const written = Array.from({ length: streams }, () => {
    const stream = session.request({
      [constants.HTTP2_HEADER_METHOD]: "POST",
      [constants.HTTP2_HEADER_PATH]: path,
      "content-type": "application/grpc",
      te: "trailers",
    });
    stream.on("error", () => undefined);
    stream.resume();
    return new Promise<number>((resolve) => {
      stream.once("close", () => resolve(0));
      stream.write(half, () => resolve(half.length));
    });
  });
  return { sent: Promise.all(written).then((bytes) => bytes.reduce((sum, one) => sum + one, 0)), close: () => session.destroy() };
}

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { beginRequest, readResponseHeader, Writer, type Api, type Input } from "@sluice/kafka-wire";

interface Waiting {
  readonly correlationId: number;
  readonly read: (frame: Buffer) => void;
  readonly fail: (error: Error) => void;
}

/** A Kafka client that sends what it is told, pipelined, and expects the answers in the order of its requests. */
export class KafkaClient implements AsyncDisposable {
  readonly socket: Socket;
  /** Frames without their length, as they came, that no call waited for. */
  readonly stray: Buffer[] = [];
  readonly #waiting: Waiting[] = [];
  #received = Buffer.alloc(0);
  #correlationId = 0;
  #closed = false;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (chunk: Buffer) => this.#take(chunk));
    socket.on("error", () => undefined);
    socket.on("close", () => {
      this.#closed = true;
      for (const { fail } of this.#waiting.splice(0)) fail(new Error("connection closed"));
    });
  }
  static async connect(address: string): Promise<KafkaClient> {
    const [host, port] = address.split(":") as [string, string];
    const socket = connect({ host, port: Number(port), noDelay: true });
    await once(socket, "connect");
    return new KafkaClient(socket);
  }

  call<Request, Response>(api: Api<Request, Response>, version: number, request: Input<Request>): Promise<Response> {
    const flexible = api.response.isFlexible(version);
    return this.raw(encodeRequest(api, version, ++this.#correlationId, request), this.#correlationId, (frame) => {
      const { bodyAt } = readResponseHeader(frame, api.key, flexible);
      return api.response.decode(version, frame, bodyAt);
    });
  }
  /** A request that has no answer. */
  send<Request>(api: Api<Request, unknown>, version: number, request: Input<Request>): void {
    this.socket.write(encodeRequest(api, version, ++this.#correlationId, request));
  }
  /** Any bytes; `read` gets the frame that comes back. */
  raw<T>(bytes: Uint8Array, correlationId: number, read: (frame: Buffer) => T): Promise<T> {
    if (this.#closed) return Promise.reject(new Error("connection closed"));
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({
        correlationId,
        read: (frame) => {
          try {
            resolve(read(frame));
          } catch (error) {
            reject(error as Error);
          }
        },
        fail: reject,
      });
      this.socket.write(bytes);
    });
  }
  get closed(): Promise<void> {
    return this.#closed ? Promise.resolve() : once(this.socket, "close").then(() => undefined);
  }
  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.destroy();
    await this.closed;
  }

  #take(chunk: Buffer): void {
    this.#received = Buffer.concat([this.#received, chunk]);
    while (this.#received.length >= 4 && this.#received.length >= 4 + this.#received.readInt32BE(0)) {
      const end = 4 + this.#received.readInt32BE(0);
      const frame = this.#received.subarray(4, end);
      this.#received = this.#received.subarray(end);
      const waiting = this.#waiting.shift();
      if (waiting === undefined) this.stray.push(frame);
      else if (waiting.correlationId === frame.readInt32BE(0)) waiting.read(frame);
      else waiting.fail(new Error(`answer ${frame.readInt32BE(0)} instead of ${waiting.correlationId}`));
    }
  }
}

export function encodeRequest<Request>(
  api: Api<Request, unknown>,
  version: number,
  correlationId: number,
  request: Input<Request>,
): Uint8Array {
  const writer = new Writer();
  beginRequest(writer, { apiKey: api.key, apiVersion: version, correlationId }, "test", api.request.isFlexible(version));
  api.request.encode(version, request, writer);
  writer.setFrameLength();
  return writer.toBytes();
}

import { createServer, type IncomingMessage, type Server } from "node:http";
import { gunzipSync } from "node:zlib";

/** A span as the collector was told of it; ids in hex, times in ms since 1970. */
export interface CollectedSpan {
  /** `service.name` and `service.instance.id` of the process. */
  readonly service: string;
  readonly instance: string;
  readonly traceId: string;
  readonly spanId: string;
  /** "" = it begins the trace. */
  readonly parentId: string;
  readonly name: string;
  readonly kind: number;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /** Span ids. */
  readonly links: readonly string[];
  /** 2 = error. */
  readonly status: number;
}
export interface OtlpCollector extends AsyncDisposable {
  /** For OTEL_EXPORTER_OTLP_ENDPOINT. */
  readonly url: string;
  readonly spans: readonly CollectedSpan[];
  /** Requests so far, well formed or not. */
  readonly requests: number;
}

/**
 * An OpenTelemetry collector, as far as tests need one: takes OTLP over HTTP in protobuf at /v1/traces and keeps the spans.
 * `status` other than 200 makes it one that refuses everything.
 */
export async function startOtlpCollector(options: { readonly port?: number; readonly status?: number } = {}): Promise<OtlpCollector> {
  const spans: CollectedSpan[] = [];
  let requests = 0;
  const server = createServer((request, response) => {
    requests += 1;
    void body(request).then((bytes) => {
      const known = request.method === "POST" && request.url === "/v1/traces";
      const status = known ? (options.status ?? 200) : 404;
      if (status === 200) spans.push(...decodeTraces(request.headers["content-encoding"] === "gzip" ? gunzipSync(bytes) : bytes));
      response.writeHead(status, { "content-type": "application/x-protobuf" }).end();
    });
  });
  const port = await listening(server, options.port ?? 0);
  return {
    url: `http://127.0.0.1:${port}`,
    spans,
    get requests() {
      return requests;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
async function body(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts);
}
function listening(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", () => resolve((server.address() as { port: number }).port));
  });
}

type Field = { readonly number: number; readonly value: Buffer; readonly integer: bigint };
/** Fields of a protobuf message: the bytes of lengths and fixed numbers, the integer of varints. */
function* fields(bytes: Buffer): Generator<Field> {
  let at = 0;
  const varint = (): bigint => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      if (byte === undefined) throw new Error("a varint is cut");
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.length) {
    const tag = varint();
    const type = Number(tag & 7n);
    let value: Buffer = Buffer.alloc(0);
    let integer = 0n;
    if (type === 0) integer = varint();
    else {
      const length = type === 1 ? 8 : type === 5 ? 4 : Number(varint());
      value = bytes.subarray(at, at + length);
      at += length;
    }
    yield { number: Number(tag >> 3n), value, integer };
  }
}
const all = (bytes: Buffer, number: number): Buffer[] => [...fields(bytes)].filter((f) => f.number === number).map((f) => f.value);
const one = (bytes: Buffer, number: number): Buffer => all(bytes, number)[0] ?? Buffer.alloc(0);
const integer = (bytes: Buffer, number: number): number => Number([...fields(bytes)].find((f) => f.number === number)?.integer ?? 0n);

function attributes(pairs: readonly Buffer[]): Record<string, string | number | boolean> {
  const out: Record<string, string | number | boolean> = {};
  for (const pair of pairs)
    for (const { number, value, integer: n } of fields(one(pair, 2)))
      out[one(pair, 1).toString()] =
        number === 1 ? value.toString() : number === 2 ? n === 1n : number === 3 ? Number(BigInt.asIntN(64, n)) : value.readDoubleLE();
  return out;
}
const NANOS_PER_MS = 1e6;
const ms = (bytes: Buffer): number => Number(bytes.readBigUInt64LE()) / NANOS_PER_MS;

/** `ExportTraceServiceRequest` of opentelemetry-proto, the parts that tests look at. */
function decodeTraces(request: Buffer): CollectedSpan[] {
  const out: CollectedSpan[] = [];
  for (const ofResource of all(request, 1)) {
    const resource = attributes(all(one(ofResource, 1), 1));
    for (const span of all(ofResource, 2).flatMap((ofScope) => all(ofScope, 2))) {
      out.push({
        service: String(resource["service.name"]),
        instance: String(resource["service.instance.id"] ?? ""),
        traceId: one(span, 1).toString("hex"),
        spanId: one(span, 2).toString("hex"),
        parentId: one(span, 4).toString("hex"),
        name: one(span, 5).toString(),
        kind: integer(span, 6),
        startMs: ms(one(span, 7)),
        endMs: ms(one(span, 8)),
        attributes: attributes(all(span, 9)),
        links: all(span, 13).map((link) => one(link, 2).toString("hex")),
        status: integer(one(span, 15), 3),
      });
    }
  }
  return out;
}

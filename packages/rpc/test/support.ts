import { create } from "@bufbuild/protobuf";
import { SluiceError, type ErrorCode } from "@sluice/core/model";
import { createListener, systemClock } from "@sluice/runtime";
import { RecordingLogger } from "@sluice/runtime/testing";
import {
  type AccessTable,
  createRpcServer,
  defineAccess,
  type Handlers,
  implement,
  type RpcServer,
  type RpcServerOptions,
} from "../src/index.ts";
import { EchoService } from "./gen/sluice/rpctest/v1/echo_pb.ts";
import { type EchoRequest, EchoResponseSchema } from "./gen/sluice/rpctest/v1/echo_types_pb.ts";

export const echoRules: AccessTable<typeof EchoService> = {
  unary: { resource: "topic", operation: "read" },
  down: { resource: "topic", operation: "read" },
  up: { resource: "topic", operation: "write" },
  both: { resource: "topic", operation: "write" },
};
export const echoAccess = defineAccess(EchoService, echoRules);

export function failWhenAsked(request: EchoRequest): void {
  if (request.fail === "boom") throw new Error("the secret inside");
  if (request.fail !== "") throw new SluiceError(request.fail as ErrorCode, `asked for ${request.fail}`, { throttleMs: 1_250 });
}
export const echoHandlers: Handlers<typeof EchoService> = {
  async unary(request, context) {
    failWhenAsked(request);
    if (request.waitMs > 0n) await systemClock.sleep(Number(request.waitMs), context.signal);
    return { text: `${request.text}|${context.clientId}|${context.traceparent}`, payload: request.payload };
  },
  async *down(request) {
    for (let i = 0; i < request.count; i++) yield { text: request.text, count: i, payload: request.payload };
    failWhenAsked(request);
  },
  async up(requests) {
    let count = 0;
    let text = "";
    for await (const request of requests) {
      failWhenAsked(request);
      count++;
      text += request.text;
    }
    return { count, text };
  },
  async *both(requests) {
    for await (const request of requests) {
      failWhenAsked(request);
      yield create(EchoResponseSchema, { text: request.text.toUpperCase(), payload: request.payload });
    }
  },
};

export interface Echo extends AsyncDisposable {
  readonly server: RpcServer;
  readonly logger: RecordingLogger;
  readonly address: string;
}
/** A running server on a free loopback port. */
export async function startEcho(options: Partial<RpcServerOptions> = {}): Promise<Echo> {
  const logger = new RecordingLogger();
  const server = createRpcServer({
    listener: createListener("test", { bind: "127.0.0.1:0" }),
    services: [implement(echoAccess, echoHandlers)],
    logger,
    clock: systemClock,
    ...options,
  });
  await server.start();
  return { server, logger, address: server.address, [Symbol.asyncDispose]: () => server.stop() };
}

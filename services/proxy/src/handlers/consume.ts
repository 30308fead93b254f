import { ConsumeService, type ConsumeRequest } from "@sluice/proto/v1/consume";
import { defineAccess, implement, type CallContext, type DuplexStream, type ServiceRegistration } from "@sluice/rpc";
import { ConsumeSession } from "../consume-session.ts";
import { consumedCodec, fetchedCodec, type Consumed } from "../wire/consume-codec.ts";
import type { ConsumeHandlersContext } from "./consume-context.ts";
import { fetch } from "./fetch.ts";
import { listOffsets } from "./list-offsets.ts";

export const consumeAccess = defineAccess(ConsumeService, {
  fetch: { resource: "topic", operation: "read" },
  consume: { resource: "topic", operation: "read" },
  listOffsets: { resource: "topic", operation: "describe" },
});

export function consumeService(context: ConsumeHandlersContext): ServiceRegistration {
  const session = { ...context, onSent: (bytes: number) => context.metrics.consumeBytes.inc(bytes) };
  return implement(
    consumeAccess,
    {
      fetch: (request, call) => fetch(context, request, call),
      consume: {
        stream: (stream: DuplexStream<ConsumeRequest, Consumed>, call: CallContext) => new ConsumeSession(session, stream, call).run(),
      },
      listOffsets: (request, call) => listOffsets(context, request, call),
    },
    { codecs: { fetch: { response: fetchedCodec }, consume: { response: consumedCodec } } },
  );
}

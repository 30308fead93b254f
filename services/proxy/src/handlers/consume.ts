import type { Codecs } from "@sluice/core/log";
import type { Timers } from "@sluice/core/model";
import { ConsumeService, type ConsumeRequest } from "@sluice/proto/v1/consume";
import { defineAccess, implement, type CallContext, type DuplexStream, type ServiceRegistration } from "@sluice/rpc";
import type { Clock } from "@sluice/runtime";
import { ConsumeSession } from "../consume-session.ts";
import type { ProxyMetrics } from "../metrics.ts";
import type { Positions } from "../positions.ts";
import type { ReadPath } from "../read-path.ts";
import type { Topics } from "../topics.ts";
import { consumedCodec, fetchedCodec, type Consumed } from "../wire/consume-codec.ts";
import { fetch } from "./fetch.ts";
import { listOffsets } from "./list-offsets.ts";

export interface ConsumeHandlersContext {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly codecs: Codecs;
  readonly topics: Topics;
  readonly positions: Positions;
  readonly reads: ReadPath;
  readonly metrics: ProxyMetrics;
}

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

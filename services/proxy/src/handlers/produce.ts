import { sampledTraceParent } from "@sluice/core/log";
import { errorCodeOf, SluiceError, type Timers } from "@sluice/core/model";
import type { ProduceOutcome } from "@sluice/partition-client";
import { ProduceService, type ProduceRequest } from "@sluice/proto/v1/produce";
import { defineAccess, implement, type CallContext, type DuplexStream, type ServiceRegistration } from "@sluice/rpc";
import type { Clock } from "@sluice/runtime";
import { answerDeadline } from "../answer-deadline.ts";
import { produceErrorMessage, throttleReason, type ProducePath } from "../produce-path.ts";
import { ProduceSession } from "../produce-session.ts";
import type { ProducerIds } from "../producer-ids.ts";
import type { Topics } from "../topics.ts";
import { streamProduceCodec, streamProducedCodec, type StreamProduce, type StreamProduced } from "../wire/produce-codec.ts";

export interface ProduceHandlersContext {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly topics: Topics;
  readonly path: ProducePath;
  readonly producerIds: ProducerIds;
}

export const produceAccess = defineAccess(ProduceService, {
  produce: { resource: "topic", operation: "write" },
  produceStream: { resource: "topic", operation: "write" },
  initProducer: { resource: "producer", operation: "write" },
});

export function produceService(context: ProduceHandlersContext): ServiceRegistration {
  const { clock, timers, topics, path, producerIds } = context;
  const session = { clock, topics, path, holdMs: timers.produceHoldMs };
  return implement(
    produceAccess,
    {
      produce: (request, call) => produce(context, request, call),
      produceStream: {
        stream: (stream: DuplexStream<StreamProduce, StreamProduced>, call: CallContext) => new ProduceSession(session, stream, call).run(),
      },
      async initProducer() {
        return { producerId: BigInt(await producerIds.take()), producerEpoch: 0 };
      },
    },
    { codecs: { produceStream: { request: streamProduceCodec, response: streamProducedCodec } } },
  );
}

async function produce(context: ProduceHandlersContext, request: ProduceRequest, call: CallContext) {
  const { clock, timers, topics, path } = context;
  await call.authorize(request.topic);
  const topic = await topics.find(call.principal.tenant, request.topic);
  const { data } = request;
  const asked = {
    partition: request.partition,
    batch: data.case === "batch" ? data.value : undefined,
    records: data.case === "records" ? data.value : undefined,
    expectedBaseOffset: optionalOffset("expected_base_offset", request.expectedBaseOffset),
    fenceToken: optionalOffset("fence_token", request.fenceToken),
    trace: sampledTraceParent(call.traceparent),
  };
  const deadlineMs = answerDeadline(clock, timers, call.remainingMs());
  const { partition, outcome } = await new Promise<{ partition: number; outcome: ProduceOutcome }>((resolve) => {
    path.produce(topic, asked, deadlineMs, (chosen, ended) => resolve({ partition: chosen, outcome: ended }));
  });
  if (outcome.code !== 0)
    throw new SluiceError(errorCodeOf(outcome.code), produceErrorMessage(outcome), { throttleMs: outcome.throttleMs });
  return {
    partition,
    baseOffset: BigInt(outcome.baseOffset),
    lastOffset: BigInt(outcome.lastOffset),
    appendTimeMs: BigInt(outcome.appendTimeMs),
    logStartOffset: BigInt(outcome.logStart),
    throttleMs: outcome.throttleMs,
    throttleReason: throttleReason(outcome),
  };
}

function optionalOffset(field: string, value: bigint | undefined): number {
  if (value === undefined) return -1;
  const n = Number(value);
  if (!Number.isSafeInteger(n) || n < 0) throw new SluiceError("INVALID_ARGUMENT", `${field} is ${value}`);
  return n;
}

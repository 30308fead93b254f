import { asSluiceError } from "@sluice/core/model";
import { apis } from "@sluice/kafka-wire";
import { defineHandler, type AnyHandler } from "../api.ts";
import type { KafkaContext } from "../context.ts";
import { KafkaError, kafkaFailure } from "../errors.ts";

/** An id for an idempotent producer: always a new one, as Kafka does for producers without a transactional id. */
export const initProducerId = ({ producerIds }: KafkaContext): AnyHandler =>
  defineHandler({
    api: apis.InitProducerId,
    access: { resource: "producer", operation: "write" },
    async handle({ transactionalId }, call) {
      if (!(await call.may(undefined))) return { errorCode: KafkaError.clusterAuthorizationFailed };
      // Transactions are not served: no coordinator is told of either.
      if (transactionalId !== null) return { errorCode: KafkaError.unsupportedVersion };
      try {
        return { producerId: await producerIds.take(), producerEpoch: 0 };
      } catch (error) {
        // Of the errors that pass, every client waits for this one alone here; others end the producer.
        return { errorCode: asSluiceError(error).retriable ? KafkaError.coordinatorLoadInProgress : kafkaFailure(error).errorCode };
      }
    },
  });

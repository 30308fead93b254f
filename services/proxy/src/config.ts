import { limits } from "@sluice/core/model";
import { defineConfig, listenerKeys, mergeConfig, optionalListenerKeys } from "@sluice/runtime";
import { samplingConfig, sharedConfig, tracingConfig } from "@sluice/service";

const MiB = 1024 * 1024;

/** Configuration keys of the proxy. */
export const proxyConfig = mergeConfig(
  mergeConfig(sharedConfig("proxy"), mergeConfig(tracingConfig, samplingConfig)),
  defineConfig({
    ...listenerKeys("grpc", "127.0.0.1:7070", "gRPC for clients"),
    ...listenerKeys("kafka", "127.0.0.1:9092", "Kafka protocol for clients"),
    ...optionalListenerKeys("kafkaOutside", "Kafka protocol for clients outside of the cluster's network"),
    "kafka.autoCreateTopics": {
      type: "bool",
      default: true,
      doc: "Make a topic that a Kafka client asks for by name and that is not there, as Kafka does.",
    },
    "kafka.partitionsDefault": {
      type: "int",
      default: 1,
      min: 1,
      max: limits.topicPartitionsMax,
      doc: "Partitions of topics that Kafka clients make without saying how many.",
    },
    "produce.heldBytesMax": {
      type: "bytes",
      default: limits.proxyHeldProduceBytesMax,
      min: 16 * MiB,
      doc: "Bytes of batches without an outcome, sent or held while their partitions move; more are refused with OVERLOADED.",
    },
    "cache.tailBytes": {
      type: "bytes",
      default: limits.tailCacheBytesDefault,
      min: MiB,
      doc: "Memory for the committed tails of the partitions that have readers near their end.",
    },
    "cache.blockBytes": {
      type: "bytes",
      default: limits.blockCacheBytesDefault,
      min: 2 * MiB,
      doc: "Memory for blocks of uploaded segments.",
    },
  }),
);

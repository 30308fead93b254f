import { limits } from "@sluice/core/model";
import { defineConfig, listenerKeys, mergeConfig } from "@sluice/runtime";
import { sharedConfig, tracingConfig } from "@sluice/service";

const MiB = 1024 * 1024;

/** Configuration keys of the broker. */
export const brokerConfig = mergeConfig(
  mergeConfig(sharedConfig("broker"), tracingConfig),
  defineConfig({
    ...listenerKeys("link", "127.0.0.1:7071", "Data link for proxies and coordinators"),
    ...listenerKeys("rpc", "127.0.0.1:7072", "Control calls"),
    "append.pendingBytesMax": {
      type: "bytes",
      default: limits.brokerPendingBytesMax,
      min: MiB,
      doc: "Bytes of batches that may wait for their answers; more are refused with OVERLOADED.",
    },
  }),
);

import { defineConfig, listenerKeys, mergeConfig } from "@sluice/runtime";
import { sharedConfig } from "@sluice/service";

const KiB = 1024;
const MiB = 1024 * KiB;

/** Configuration keys of the coordinator. */
export const coordinatorConfig = mergeConfig(
  sharedConfig("coordinator"),
  defineConfig({
    ...listenerKeys("rpc", "127.0.0.1:7072", "Control calls"),
    "snapshot.records": {
      type: "int",
      default: 50_000,
      min: 1,
      max: 10_000_000,
      doc: "A shard's state is written to the object store after so many records of its log.",
    },
    "snapshot.bytes": {
      type: "bytes",
      default: 16 * MiB,
      min: KiB,
      doc: "A shard's state is written to the object store after so many bytes of its log.",
    },
  }),
);

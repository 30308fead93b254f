import { limits, timers } from "@sluice/core/model";
import { defineConfig, listenerKeys, mergeConfig } from "@sluice/runtime";
import { sharedConfig, tracingConfig } from "@sluice/service";

const MiB = 1024 * 1024;
const GiB = 1024 * MiB;

/** Configuration keys of the segment store. */
export const segmentStoreConfig = mergeConfig(
  mergeConfig(sharedConfig("segment-store"), tracingConfig),
  defineConfig({
    ...listenerKeys("link", "127.0.0.1:7071", "Data link for brokers and proxies"),
    ...listenerKeys("rpc", "127.0.0.1:7072", "Control calls"),
    "data.folder": {
      type: "path",
      required: true,
      doc: "Folder of this node's journal. One process at a time; never copy it to another node.",
    },
    "disk.capacityBytes": {
      type: "bytes",
      default: 0,
      doc: "Space that this node may use, when it is less than its disk; 0 = all of the disk.",
    },
    "journal.fileBytes": {
      type: "bytes",
      default: limits.journalFileBytes,
      min: MiB,
      max: 2 * GiB,
      doc: "Size of a journal file. Space is given back file by file.",
    },
    "checkpoint.bytes": {
      type: "bytes",
      default: 256 * MiB,
      min: MiB,
      doc: "A checkpoint after so much journal: what a restart reads at most, about.",
    },
    "read.concurrency": {
      type: "int",
      default: 2,
      min: 1,
      max: 64,
      doc: "Reads at the disk at one time. At most UV_THREADPOOL_SIZE less two, so that a sync never waits behind reads.",
    },
    "offload.concurrency": { type: "int", default: 1, min: 1, max: 8, doc: "Segments uploaded at one time." },
    "offload.takeOverAfter": {
      type: "duration",
      default: timers.offloadTakeOverMs,
      min: 100,
      doc: "The second and third replica upload a segment when the first has not for this long.",
    },
  }),
);

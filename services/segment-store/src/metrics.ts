import { meterSlabs } from "@sluice/link";
import { errorCodeOf } from "@sluice/core/model";
import type { ReplicaStatus } from "@sluice/core/replica";
import type { Metrics } from "@sluice/runtime";

export interface StoreMetrics {
  appended(bytes: number): void;
  group(bytes: number, entries: number): void;
  synced(seconds: number): void;
  refused(code: number): void;
  alarm(): void;
  read(bytes: number, seconds: number): void;
  readRefused(code: string): void;
  upload(result: "done" | "lost" | "failed", bytes: number): void;
  checkpoint(seconds: number, bytes: number): void;
  compacted(bytes: number): void;
}
/** What the gauges show when they are asked. */
export interface StoreGauges {
  journalBytes(): number;
  liveBytes(): number;
  spareBytes(): number;
  queuedBytes(): number;
  freeBytes(): number;
  segments(status: ReplicaStatus): number;
  failed(): boolean;
  diskFull(): boolean;
}
const statuses: readonly ReplicaStatus[] = ["OPEN", "FENCED", "FENCED_EMPTY", "REBUILD", "SEALED", "INCOMPLETE", "FAILED", "DELETED"];
const SYNC_BUCKETS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5];
const GROUP_BUCKETS = [4096, 16_384, 65_536, 262_144, 1_048_576, 2_097_152, 4_194_304, 16_777_216];

export function createStoreMetrics(m: Metrics, gauges: StoreGauges): StoreMetrics {
  meterSlabs(m, "store");
  const appendedBytes = m.counter("sluice_store_append_bytes_total", "Bytes of batches that came in append frames.");
  const groups = m.histogram("sluice_store_group_bytes", "Size of a journal group.", { buckets: GROUP_BUCKETS });
  const entries = m.counter("sluice_store_journal_entries_total", "Entries written to the journal.");
  const sync = m.histogram("sluice_store_sync_seconds", "Time to write a group and to sync it.", { buckets: SYNC_BUCKETS });
  const refused = m.counter("sluice_store_appends_refused_total", "Appends that were refused, by code.", { labels: ["code"] });
  const alarms = m.counter("sluice_store_alarms_total", "Copies that differ where they must not. Any at all needs an operator.");
  const readBytes = m.counter("sluice_store_read_bytes_total", "Bytes of batches given to readers.");
  const reads = m.histogram("sluice_store_read_seconds", "Time from a read request to its answer.");
  const readsRefused = m.counter("sluice_store_reads_refused_total", "Reads that were refused, by code.", { labels: ["code"] });
  const uploads = m.counter("sluice_store_uploads_total", "Uploads of sealed segments, by result.", { labels: ["result"] });
  const uploaded = m.counter("sluice_store_uploaded_bytes_total", "Bytes uploaded to the object store.");
  const checkpoints = m.histogram("sluice_store_checkpoint_seconds", "Time to write a checkpoint.");
  const checkpointBytes = m.gauge("sluice_store_checkpoint_bytes", "Size of the last checkpoint.");
  const compacted = m.counter("sluice_store_compacted_bytes_total", "Bytes copied to the head of the journal to free a file.");
  m.gauge("sluice_store_journal_bytes", "Size of all journal files.", { collect: () => gauges.journalBytes() });
  m.gauge("sluice_store_journal_spare_bytes", "Size of those that hold nothing, to be written again.", {
    collect: () => gauges.spareBytes(),
  });
  m.gauge("sluice_store_journal_live_bytes", "Bytes in them that are still wanted.", { collect: () => gauges.liveBytes() });
  m.gauge("sluice_store_journal_queued_bytes", "Bytes that wait for a flush.", { collect: () => gauges.queuedBytes() });
  m.gauge("sluice_store_disk_free_bytes", "Free space on the disk of the journal.", { collect: () => gauges.freeBytes() });
  m.gauge("sluice_store_disk_full_count", "1 = no room: appends and new segments are refused, what is here is served.", {
    collect: () => (gauges.diskFull() ? 1 : 0),
  });
  m.gauge("sluice_store_failed_count", "1 = the journal has failed: the node must be replaced.", {
    collect: () => (gauges.failed() ? 1 : 0),
  });
  for (const status of statuses)
    m.gauge(`sluice_store_segments_${status.toLowerCase()}_count`, `Segments here that are ${status}.`, {
      collect: () => gauges.segments(status),
    });
  return {
    appended: (bytes) => appendedBytes.inc(bytes),
    group(bytes, count) {
      groups.observe(bytes);
      entries.inc(count);
    },
    synced: (seconds) => sync.observe(seconds),
    refused: (code) => refused.labels(errorCodeOf(code)).inc(),
    alarm: () => alarms.inc(),
    read(bytes, seconds) {
      readBytes.inc(bytes);
      reads.observe(seconds);
    },
    readRefused: (code) => readsRefused.labels(code).inc(),
    upload(result, bytes) {
      uploads.labels(result).inc();
      uploaded.inc(bytes);
    },
    checkpoint(seconds, bytes) {
      checkpoints.observe(seconds);
      checkpointBytes.set(bytes);
    },
    compacted: (bytes) => compacted.inc(bytes),
  };
}

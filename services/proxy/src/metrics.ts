import type { ErrorCode } from "@sluice/core/model";
import type { Counter, Histogram, Labelled, Metrics } from "@sluice/runtime";

/** Codes with which a write ends by the state of the cluster; those of a wrong request have their series once there is one. */
const PRODUCE_FAILURES: readonly ErrorCode[] = [
  "NOT_ENOUGH_REPLICAS",
  "DISK_FULL",
  "TIMED_OUT",
  "OUTCOME_UNKNOWN",
  "OVERLOADED",
  "NOT_OWNER",
  "PARTITION_RECOVERING",
  "SHUTTING_DOWN",
];
/** Everything the proxy counts. Label values are closed lists; no topic is a label here. */
export interface ProxyMetrics {
  readonly produceBytes: Counter;
  readonly produceSeconds: Histogram;
  readonly produceFailures: Labelled<Counter>;
  readonly consumeBytes: Counter;
  /** source: tail, block, storage node, object. */
  readonly readBytes: Labelled<Counter>;
  readonly peerReports: Labelled<Counter>;
}
export interface LiveValues {
  readonly heldBytes: () => number;
  readonly waitingBytes: () => number;
  readonly tailBytes: () => number;
  readonly tailPartitions: () => number;
  readonly tailWaiting: () => number;
  readonly blockBytes: () => number;
}

export function createProxyMetrics(metrics: Metrics, live: LiveValues): ProxyMetrics {
  metrics.gauge("sluice_proxy_produce_held_bytes", "Bytes of batches without an outcome, sent or held.", { collect: live.heldBytes });
  metrics.gauge("sluice_proxy_produce_waiting_bytes", "Bytes of requests that wait for a look-up or for room among the held ones.", {
    collect: live.waitingBytes,
  });
  metrics.gauge("sluice_proxy_tail_cache_bytes", "Bytes of committed tails in memory.", { collect: live.tailBytes });
  metrics.gauge("sluice_proxy_tail_partitions_count", "Partitions whose tail is followed.", { collect: live.tailPartitions });
  metrics.gauge("sluice_proxy_tail_waiting_count", "Readers that wait for news of a tail.", { collect: live.tailWaiting });
  metrics.gauge("sluice_proxy_block_cache_bytes", "Bytes of blocks of uploaded segments in memory.", { collect: live.blockBytes });
  const produceFailures = metrics.counter("sluice_proxy_produce_failures_total", "Batches that were not written, by error code.", {
    labels: ["code"],
  });
  // From the start, so that the first failure is a rise and not a new series.
  for (const code of PRODUCE_FAILURES) produceFailures.labels(code).inc(0);
  return {
    produceBytes: metrics.counter("sluice_proxy_produce_bytes_total", "Bytes of batches that were written."),
    produceSeconds: metrics.histogram("sluice_proxy_produce_seconds", "From a batch's arrival until it is durable on two storage nodes."),
    produceFailures,
    consumeBytes: metrics.counter("sluice_proxy_consume_bytes_total", "Bytes of records and batches sent to consumers."),
    readBytes: metrics.counter("sluice_proxy_read_bytes_total", "Bytes read for consumers, by where they came from.", {
      labels: ["source"],
    }),
    peerReports: metrics.counter("sluice_proxy_peer_reports_total", "Brokers reported to the controller, by reason.", {
      labels: ["reason"],
    }),
  };
}

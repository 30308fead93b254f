import { meterSlabs } from "@sluice/link";
import { alarmCauses } from "@sluice/core/partition";
import type { Counter, Gauge, Histogram, Labelled, Metrics } from "@sluice/runtime";

/** Everything the broker counts. Label values are closed lists; no topic is a label here. */
export interface BrokerMetrics {
  readonly appendBytes: Counter;
  readonly appendBatches: Counter;
  readonly appendSeconds: Histogram;
  readonly refused: Labelled<Counter>;
  readonly pendingBytes: Gauge;
  readonly tailSkips: Counter;
  readonly stepDowns: Labelled<Counter>;
  readonly alarms: Labelled<Counter>;
  readonly suspects: Labelled<Counter>;
  readonly controlSeconds: Labelled<Histogram>;
}

export function createBrokerMetrics(
  metrics: Metrics,
  live: {
    readonly partitions: () => number;
    readonly serving: () => number;
    readonly waiting: () => number;
    readonly metadataWaiting: () => number;
    readonly starved: () => number;
    readonly subscriptions: () => number;
  },
): BrokerMetrics {
  meterSlabs(metrics, "broker");
  metrics.gauge("sluice_broker_partitions_count", "Partitions assigned to this broker.", { collect: live.partitions });
  metrics.gauge("sluice_broker_partitions_serving_count", "Partitions that this broker owns and serves.", { collect: live.serving });
  metrics.gauge("sluice_broker_partitions_waiting_count", "Partitions that wait until fewer others are being taken or deleted.", {
    collect: live.waiting,
  });
  metrics.gauge("sluice_broker_metadata_calls_waiting_count", "Calls to the metadata store that wait until fewer others are under way.", {
    collect: live.metadataWaiting,
  });
  metrics.gauge(
    "sluice_broker_partitions_starved_count",
    "Partitions here that can store nothing: too few storage nodes, or no room on them.",
    {
      collect: live.starved,
    },
  );
  metrics.gauge("sluice_broker_tail_subscriptions_count", "Tail subscriptions of proxies.", { collect: live.subscriptions });
  const alarms = metrics.counter("sluice_broker_alarms_total", "States that a person must look at, by cause.", { labels: ["cause"] });
  // From the start, so that the first alarm is a rise and not a new series.
  for (const cause of alarmCauses) alarms.labels(cause).inc(0);
  return {
    appendBytes: metrics.counter("sluice_broker_append_bytes_total", "Bytes of batches taken for append."),
    appendBatches: metrics.counter("sluice_broker_append_batches_total", "Batches taken for append."),
    appendSeconds: metrics.histogram("sluice_broker_append_seconds", "From a batch's arrival until two storage nodes have it on disk."),
    refused: metrics.counter("sluice_broker_append_refused_total", "Batches refused, by error code.", { labels: ["code"] }),
    pendingBytes: metrics.gauge("sluice_broker_append_pending_bytes", "Bytes of batches that wait for their answer."),
    tailSkips: metrics.counter("sluice_broker_tail_skips_total", "Pushes left out because a proxy could not take them."),
    stepDowns: metrics.counter("sluice_broker_step_downs_total", "Ownerships ended, by reason.", { labels: ["reason"] }),
    alarms,
    suspects: metrics.counter("sluice_broker_suspects_total", "Storage nodes reported, by reason.", { labels: ["reason"] }),
    controlSeconds: metrics.histogram("sluice_broker_control_call_seconds", "Control calls to storage nodes, by kind.", {
      labels: ["kind"],
    }),
  };
}

import type { Counter, Histogram, Labelled, Metrics } from "@sluice/runtime";

/** What the Kafka listener counts. Labels are names of APIs and closed lists of reasons. */
export interface KafkaMetrics {
  readonly requests: Labelled<Counter>;
  readonly requestSeconds: Labelled<Histogram>;
  readonly requestBytes: Counter;
  readonly responseBytes: Counter;
  /** reason: malformed, too large, unsupported, slow, idle, too many, failed, no answer. */
  readonly closed: Labelled<Counter>;
}
export interface KafkaLiveValues {
  readonly connections: () => number;
  readonly largeFrameBytes: () => number;
  readonly heldBytes: () => number;
}

export function createKafkaMetrics(metrics: Metrics, live: KafkaLiveValues): KafkaMetrics {
  metrics.gauge("sluice_proxy_kafka_connections_count", "Open connections of Kafka clients.", { collect: live.connections });
  metrics.gauge("sluice_proxy_kafka_large_frames_bytes", "Sizes of the large Kafka requests that are arriving or under way.", {
    collect: live.largeFrameBytes,
  });
  metrics.gauge("sluice_proxy_kafka_held_bytes", "Bytes of Kafka requests without an answer, and of answers that clients have not taken.", {
    collect: live.heldBytes,
  });
  return {
    requests: metrics.counter("sluice_proxy_kafka_requests_total", "Requests of Kafka clients, by API.", { labels: ["api"] }),
    requestSeconds: metrics.histogram("sluice_proxy_kafka_request_seconds", "From a request's arrival until its answer is ready, by API.", {
      labels: ["api"],
    }),
    requestBytes: metrics.counter("sluice_proxy_kafka_request_bytes_total", "Bytes of Kafka requests."),
    responseBytes: metrics.counter("sluice_proxy_kafka_response_bytes_total", "Bytes of answers to Kafka requests."),
    closed: metrics.counter("sluice_proxy_kafka_closed_total", "Connections of Kafka clients that the proxy closed, by reason.", {
      labels: ["reason"],
    }),
  };
}

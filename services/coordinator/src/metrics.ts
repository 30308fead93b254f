import type { Counter, Gauge, Histogram, Labelled, Metrics } from "@sluice/runtime";

/** Everything the coordinator counts. Label values are closed lists; no group and no topic is a label here. */
export interface CoordinatorMetrics {
  /** By outcome: stored, conflict, fenced, refused, unknown. */
  readonly appends: Labelled<Counter>;
  readonly appendSeconds: Histogram;
  readonly offsetsCommitted: Counter;
  /** By error code. */
  readonly refused: Labelled<Counter>;
  readonly fetches: Counter;
  /** Generations of classic groups, assignments of the others. By kind: classic, consumer. */
  readonly rebalances: Labelled<Counter>;
  /** By reason. */
  readonly shardsLost: Labelled<Counter>;
  readonly takeSeconds: Histogram;
  readonly replayedRecords: Counter;
  /** By outcome: written, failed, lost. */
  readonly snapshots: Labelled<Counter>;
  readonly snapshotBytes: Gauge;
}
export interface LiveFigures {
  readonly wanted: () => number;
  readonly active: () => number;
  readonly loading: () => number;
  readonly groups: () => number;
  readonly members: () => number;
  readonly waiting: () => number;
  readonly offsets: () => number;
  readonly stateBytes: () => number;
  readonly queued: () => number;
}

export function createCoordinatorMetrics(m: Metrics, live: LiveFigures): CoordinatorMetrics {
  const gauge = (name: string, help: string, collect: () => number): void => void m.gauge(`sluice_coordinator_${name}`, help, { collect });
  gauge("shards_wanted_count", "Shards that should be here.", live.wanted);
  gauge("shards_active_count", "Shards that are served here.", live.active);
  gauge("shards_loading_count", "Shards that are being taken or replayed here.", live.loading);
  gauge("groups_count", "Groups in the shards that are here.", live.groups);
  gauge("members_count", "Members of the groups that are here.", live.members);
  gauge("calls_waiting_count", "Calls that wait for other members of their group.", live.waiting);
  gauge("offsets_count", "Committed offsets in the shards that are here.", live.offsets);
  gauge("state_bytes", "About what the state of the shards occupies.", live.stateBytes);
  gauge("requests_queued_count", "Requests that wait for a shard.", live.queued);
  return {
    appends: m.counter("sluice_coordinator_appends_total", "Appends to shard logs, by outcome.", { labels: ["outcome"] }),
    appendSeconds: m.histogram("sluice_coordinator_append_seconds", "One append to a shard's log until it is durable."),
    offsetsCommitted: m.counter("sluice_coordinator_offsets_committed_total", "Offsets committed."),
    refused: m.counter("sluice_coordinator_requests_refused_total", "Requests that failed as a whole, by error code.", {
      labels: ["code"],
    }),
    fetches: m.counter("sluice_coordinator_fetches_total", "Reads of committed offsets."),
    rebalances: m.counter("sluice_coordinator_rebalances_total", "New generations or assignments of groups, by kind of group.", {
      labels: ["kind"],
    }),
    shardsLost: m.counter("sluice_coordinator_shards_lost_total", "Shards that were given up, by reason.", { labels: ["reason"] }),
    takeSeconds: m.histogram("sluice_coordinator_take_seconds", "From the claim of a shard until it is served."),
    replayedRecords: m.counter("sluice_coordinator_replayed_records_total", "Log records read to take a shard or to settle an append."),
    snapshots: m.counter("sluice_coordinator_snapshots_total", "Snapshots, by outcome.", { labels: ["outcome"] }),
    snapshotBytes: m.gauge("sluice_coordinator_snapshot_bytes", "Size of the last snapshot written."),
  };
}

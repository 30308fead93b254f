import type { Counter, Gauge, Histogram, Labelled, Metrics } from "@sluice/runtime";

export interface ControllerMetrics {
  /** 1 while this instance leads. */
  readonly leader: Gauge;
  readonly elections: Counter;
  /** By service. */
  readonly members: Labelled<Gauge>;
  /** By service: members that are suspect or taken for dead while their key is still there. */
  readonly suspects: Labelled<Gauge>;
  readonly storesFull: Gauge;
  readonly topics: Gauge;
  readonly topicsDeleted: Gauge;
  readonly partitions: Gauge;
  readonly partitionsUnassigned: Gauge;
  readonly partitionsOffline: Gauge;
  readonly movesInFlight: Gauge;
  readonly movesWindow: Gauge;
  /** By cause: FIRST, LOST, FORCE, STUCK, DRAIN, BALANCE. */
  readonly assignments: Labelled<Counter>;
  /** By outcome: refused, open, timeout. */
  readonly probes: Labelled<Counter>;
  readonly heartbeats: Labelled<Counter>;
  readonly retentionSegments: Counter;
  readonly retentionRefused: Counter;
  readonly garbageSegments: Counter;
  readonly garbageWaiting: Gauge;
  readonly orphanObjects: Counter;
  readonly orphanRefused: Counter;
  readonly reconcile: Histogram;
  readonly reconcileFailures: Counter;
  readonly compactions: Counter;
}

export function createControllerMetrics(m: Metrics): ControllerMetrics {
  return {
    leader: m.gauge("sluice_controller_leader_count", "1 while this instance leads."),
    elections: m.counter("sluice_controller_elections_total", "Elections won by this instance."),
    members: m.gauge("sluice_controller_members_count", "Members registered.", { labels: ["service"] }),
    suspects: m.gauge("sluice_controller_members_suspect_count", "Members suspect or taken for dead.", { labels: ["service"] }),
    storesFull: m.gauge("sluice_controller_stores_full_count", "Storage nodes without room on their disks."),
    topics: m.gauge("sluice_controller_topics_count", "Topics."),
    topicsDeleted: m.gauge("sluice_controller_topics_deleted_count", "Deleted topics of which something is left."),
    partitions: m.gauge("sluice_controller_partitions_count", "Partitions of all topics."),
    partitionsUnassigned: m.gauge("sluice_controller_partitions_unassigned_count", "Partitions without a broker."),
    partitionsOffline: m.gauge("sluice_controller_partitions_offline_count", "Partitions that no live broker serves."),
    movesInFlight: m.gauge("sluice_controller_moves_in_flight_count", "Planned moves under way."),
    movesWindow: m.gauge(
      "sluice_controller_moves_window_count",
      "Planned moves that may be under way at a time; grows while they are quick.",
    ),
    assignments: m.counter("sluice_controller_assignments_total", "Assignments written.", { labels: ["cause"] }),
    probes: m.counter("sluice_controller_probes_total", "Connects tried to tell whether a member lives.", { labels: ["result"] }),
    heartbeats: m.counter("sluice_controller_heartbeats_total", "Heartbeats received.", { labels: ["service"] }),
    retentionSegments: m.counter("sluice_controller_retention_segments_total", "Segments that retention marked for deletion."),
    retentionRefused: m.counter("sluice_controller_retention_refused_total", "Retention runs refused: the wall clock stepped."),
    garbageSegments: m.counter("sluice_controller_garbage_segments_total", "Segments whose copies, object and key are gone."),
    garbageWaiting: m.gauge("sluice_controller_garbage_waiting_count", "Segments marked for deletion that still have a key."),
    orphanObjects: m.counter("sluice_controller_orphan_objects_total", "Objects deleted that no key named."),
    orphanRefused: m.counter("sluice_controller_orphan_refused_total", "Orphan sweeps refused: they wanted too large a share."),
    reconcile: m.histogram("sluice_controller_reconcile_duration_seconds", "One run of the reconciler."),
    reconcileFailures: m.counter("sluice_controller_reconcile_failures_total", "Runs of the reconciler that ended in an error."),
    compactions: m.counter("sluice_controller_compactions_total", "Compactions of the metadata history."),
  };
}

import type { ClusterView, Keys } from "@sluice/catalog";
import type { Timers } from "@sluice/core/model";
import type { MetadataStore } from "@sluice/metadata";
import type { Clock } from "@sluice/runtime";
import type { ControllerClient } from "../controller-client.ts";
import type { CoordinatorClient } from "../coordinator-client.ts";
import type { ProxyMetrics } from "../metrics.ts";
import type { OwnerOffsets } from "../owner-offsets.ts";
import type { Positions } from "../positions.ts";
import type { ProducePath } from "../produce-path.ts";
import type { ProducerIds } from "../producer-ids.ts";
import type { ReadPath } from "../read-path.ts";
import type { TailCache } from "../tail-cache.ts";
import type { Topics } from "../topics.ts";
import type { FetchSessions } from "./fetch-sessions.ts";
import type { Redirects } from "./redirects.ts";
import type { SequenceGaps } from "./sequence-gaps.ts";
import type { Topology } from "./topology.ts";

/** What a user may set. */
export interface KafkaSettings {
  /** A topic that a client asks for by name is made when it is not there, unless the client says otherwise. */
  readonly autoCreateTopics: boolean;
  /** Partitions of topics made so, and of those created without a number. */
  readonly partitionsDefault: number;
}
/** As Kafka itself does. */
export const kafkaDefaults: KafkaSettings = { autoCreateTopics: true, partitionsDefault: 1 };

/** What the handlers share. */
export interface KafkaContext {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly view: ClusterView;
  readonly store: MetadataStore;
  readonly keys: Keys;
  readonly topics: Topics;
  readonly topology: Topology;
  readonly controller: Pick<ControllerClient, "call">;
  readonly coordinators: Pick<CoordinatorClient, "call" | "list">;
  readonly path: ProducePath;
  readonly producerIds: Pick<ProducerIds, "take">;
  readonly reads: ReadPath;
  readonly tails: TailCache;
  readonly positions: Positions;
  readonly offsets: Pick<OwnerOffsets, "confirm">;
  readonly fetchSessions: FetchSessions;
  readonly redirects: Redirects;
  readonly sequenceGaps: SequenceGaps;
  readonly metrics: ProxyMetrics;
  readonly settings: KafkaSettings;
}

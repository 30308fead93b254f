import type { ClusterView } from "@sluice/catalog";
import { crc32c } from "@sluice/codec";
import type { ClusterRecord, PartitionId } from "@sluice/core/model";
import type { LinkContext } from "@sluice/link";
import { BrokerLinks, ObjectReader, ProduceRouter, SegmentReader, StoreReader } from "@sluice/partition-client";
import type { ServiceEnvironment, ServiceIdentity } from "@sluice/service";
import { BrokerOffsets } from "./broker-offsets.ts";
import { PartitionEnds } from "./partition-ends.ts";
import { PartitionLog } from "./partition-log.ts";
import type { ShardLog } from "./shard-log.ts";

/** How shards are written and read, and how far partitions go. */
export interface LogAccess {
  log(shard: number): ShardLog;
  readonly ends: PartitionEnds;
  start?(): void;
  close(): void;
}
/** Bytes of appends that wait for the brokers of the shards' partitions. */
const HELD_APPEND_BYTES_MAX = 32 * 1024 * 1024;

/** The shards' logs as partitions: links to brokers for appends, to storage nodes and the object store for reads. */
export class BrokerLogs implements LogAccess {
  readonly ends: PartitionEnds;
  readonly #links: BrokerLinks;
  readonly #router: ProduceRouter;
  readonly #offsets: BrokerOffsets;
  readonly #stores: StoreReader;
  readonly #view: ClusterView;
  readonly #log: (shard: number) => ShardLog;
  #unsubscribe: (() => void) | undefined;

  constructor(
    environment: ServiceEnvironment,
    identity: ServiceIdentity,
    view: ClusterView,
    cluster: ClusterRecord,
    partition: (shard: number) => PartitionId | undefined,
  ) {
    const { clock, random, logger, timers, store, keys, objectStore } = environment;
    this.#view = view;
    const context: LinkContext = {
      clock,
      random,
      logger,
      timers,
      identity: {
        clusterId: cluster.clusterId,
        generation: cluster.generation,
        service: "coordinator",
        memberId: identity.id,
        instance: identity.instance,
        incarnation: "",
        zone: identity.zone,
      },
      ...(environment.secret === undefined ? {} : { secret: environment.secret }),
    };
    this.#links = new BrokerLinks(context, view, {
      onFrame: (_broker, link, frame) => link.release(frame.creditBytes),
      onUp: () => this.#router.linksChanged(),
      onDown: () => undefined,
      onWritable: () => this.#router.linksChanged(),
    });
    this.#router = new ProduceRouter({ clock, timers, links: this.#links, heldBytesMax: HELD_APPEND_BYTES_MAX });
    this.#stores = new StoreReader(context, view);
    const objects = objectStore === undefined ? undefined : new ObjectReader(objectStore, crc32c);
    const reader = new SegmentReader({ view, store, keys, stores: this.#stores, objects });
    this.#offsets = new BrokerOffsets({ clock, timers, view, ownerOf: (p) => this.#links.ownerOf(p) });
    this.ends = new PartitionEnds((p, deadlineMs) => this.#offsets.marks(p, deadlineMs));
    this.#log = (shard) =>
      new PartitionLog({ clock, crc32c, partition: () => partition(shard), router: this.#router, reader, offsets: this.#offsets });
  }
  log(shard: number): ShardLog {
    return this.#log(shard);
  }
  start(): void {
    this.#unsubscribe = this.#view.onChange((changes) => {
      for (const change of changes) {
        if (change.kind === "assigned" || change.kind === "state") this.#router.routeChanged(change.partition);
        else if (change.kind === "member" && change.service === "broker") this.#router.linksChanged();
      }
    });
  }
  close(): void {
    this.#unsubscribe?.();
    this.#router.close();
    this.#links.close();
    this.#offsets.close();
    this.#stores.close();
  }
}

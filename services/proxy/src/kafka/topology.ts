import type { ClusterView } from "@sluice/catalog";
import { encodeUtf8, murmur2, type MemberRecord, type PartitionId, type TopicRecord } from "@sluice/core/model";
import { parseHostPort, type Logger } from "@sluice/runtime";
import type { ServiceIdentity } from "@sluice/service";
import type { KafkaEndpoint } from "./listener.ts";

/** A proxy as Kafka clients see it: a broker. */
export interface KafkaNode {
  readonly nodeId: number;
  readonly host: string;
  readonly port: number;
  readonly rack: string;
}
/** How many nodes a partition names as its replicas: that many storage nodes hold it, whichever proxies are named. */
const REPLICAS = 3;

/**
 * What the answering proxy tells of the cluster. Any proxy serves any partition; a leader is only where clients are sent, so that they spread
 * out. It is computed from the live proxies alone, those of the answering proxy's own zone when there are any, so all proxies of a zone say the same:
 *
 *   per topic: each partition in turn takes the node that its hash ranks first, among those that have not more than their share yet
 *
 * A node that comes or goes moves a part of the partitions, and the shares are even. The leader epoch is the epoch of the partition's owner, which does
 * not change with the mapping: clients take another leader at an equal epoch, and refuse a lower epoch.
 *
 * Clients are told the addresses of the listener that they came through, and of the proxies that have one of that kind.
 */
export class Topology {
  readonly #view: ClusterView;
  readonly #identity: ServiceIdentity;
  readonly #endpoint: KafkaEndpoint;
  readonly #logger: Logger;
  /** Addresses that more than one proxy tells of, as far as they were reported. */
  #reported = "";
  /** The nodes that the cached leaders were computed for. */
  #nodesKey = "";
  #leaders = new WeakMap<TopicRecord, readonly number[]>();

  constructor(view: ClusterView, identity: ServiceIdentity, endpoint: KafkaEndpoint, logger: Logger) {
    this.#view = view;
    this.#identity = identity;
    this.#endpoint = endpoint;
    this.#logger = logger;
  }

  /**
   * All live proxies that Kafka clients can reach, by number. One that drains is among them until it is gone, though it leads nothing: librdkafka gives
   * up a broker that is no longer named, and for a second the partitions too that the same answer sends from it to another.
   */
  nodes(): readonly KafkaNode[] {
    const nodes = this.#reachable().map((member) => nodeOf(member, this.#endpoint));
    this.#reportShared(nodes);
    return nodes;
  }
  /** Those that clients are sent to: without those that drain, while there are others. */
  staying(): readonly KafkaNode[] {
    return this.#members().map((member) => nodeOf(member, this.#endpoint));
  }
  /** Proxies that stay beside this one. */
  hasOthers(): boolean {
    return this.#reachable().some(({ instance, draining }) => instance !== this.#identity.instance && !draining);
  }
  /** Clients that know brokers by their addresses, as older librdkafka does, take two at one address for a change without end. */
  #reportShared(nodes: readonly KafkaNode[]): void {
    if (new Set(nodes.map(addressOf)).size === nodes.length) return;
    const shared = nodes.map(addressOf).filter((address, i, all) => all.indexOf(address) < i);
    const told = shared.join();
    if (told === this.#reported) return;
    this.#reported = told;
    this.#logger.warn("proxies advertise the same address to Kafka clients", { listener: this.#endpoint, addresses: shared });
  }
  /** Number of the answering proxy; -1 while it is not registered. */
  get ownId(): number {
    return this.#view.member("proxy", this.#identity.id)?.numericId ?? -1;
  }
  /** The node that takes requests which go to "the controller": this proxy, when clients are sent to it. */
  controllerId(staying: readonly KafkaNode[]): number {
    const { ownId } = this;
    return staying.some(({ nodeId }) => nodeId === ownId) ? ownId : (staying[0]?.nodeId ?? -1);
  }

  /** Node ids of the leaders of a topic's partitions; all -1 when there is no node. */
  leaders(topic: TopicRecord): readonly number[] {
    const ids = this.#leaderIds();
    const nodesKey = ids.join();
    if (nodesKey !== this.#nodesKey) {
      this.#leaders = new WeakMap();
      this.#nodesKey = nodesKey;
    }
    const known = this.#leaders.get(topic);
    if (known !== undefined) return known;
    const leaders = assignLeaders(topic.topicId, topic.partitions, ids);
    this.#leaders.set(topic, leaders);
    return leaders;
  }
  /** Epoch of the partition's ownership; -1 while nobody ever owned it. */
  leaderEpoch(partition: PartitionId): number {
    return this.#view.partition(partition)?.state?.record.epoch ?? -1;
  }
  /** The leader and those behind it in the list of nodes. */
  replicas(leader: number, nodes: readonly KafkaNode[]): number[] {
    const at = nodes.findIndex(({ nodeId }) => nodeId === leader);
    if (at < 0) return [];
    return Array.from({ length: Math.min(REPLICAS, nodes.length) }, (_, i) => (nodes[(at + i) % nodes.length] as KafkaNode).nodeId);
  }

  /**
   * The node that clients are sent to with a group: the one that its hash ranks first. Any would do, but all proxies have to name the same: a client that is told of
   * another one gives up the join that is on its way and joins there, and of the two the first may come last; it then takes the place of the second
   * (librdkafka with a static member ended with FENCED_INSTANCE_ID).
   */
  coordinator(group: string, nodes: readonly KafkaNode[]): KafkaNode | undefined {
    const id = ranked(
      group,
      nodes.map(({ nodeId }) => nodeId),
    );
    return nodes.find(({ nodeId }) => nodeId === id);
  }
  /**
   * Which groups this proxy lists. Clients ask every broker for its groups and put the answers together, so each group is listed by one: its
   * coordinator, as above. A proxy that clients are not told of lists none, unless there is no other.
   */
  lists(): (group: string) => boolean {
    const ids = this.#members().map(({ numericId }) => numericId);
    const { ownId } = this;
    return (group) => ids.length === 0 || ranked(group, ids) === ownId;
  }

  #reachable(): MemberRecord[] {
    const all = this.#view.membersOf("proxy").filter(({ endpoints }) => endpoints[this.#endpoint] !== undefined);
    return all.sort((a, b) => a.numericId - b.numericId);
  }
  #members(): MemberRecord[] {
    const all = this.#reachable();
    const staying = all.filter(({ draining }) => !draining);
    return staying.length > 0 ? staying : all;
  }
  #leaderIds(): number[] {
    const members = this.#members();
    const near = members.filter(({ zone }) => zone === this.#identity.zone);
    return (near.length > 0 ? near : members).map(({ numericId }) => numericId);
  }
}

const addressOf = ({ host, port }: KafkaNode): string => `${host}:${port}`;
function nodeOf({ numericId, endpoints, zone }: MemberRecord, endpoint: KafkaEndpoint): KafkaNode {
  const { host, port } = parseHostPort(endpoints[endpoint] as string);
  return { nodeId: numericId, host, port, rack: zone };
}

/** The id that a name's hash ranks first: another id takes a part of the names, and leaves the others where they are. */
function ranked(name: string, ids: readonly number[]): number {
  let best = -1;
  let bestRank = -1;
  for (const id of ids) {
    const rank = murmur2(encodeUtf8(`${name}/${id}`)) >>> 0;
    if (rank > bestRank) {
      best = id;
      bestRank = rank;
    }
  }
  return best;
}

/** @param ids of the nodes, ascending */
export function assignLeaders(topicId: string, partitions: number, ids: readonly number[]): number[] {
  if (ids.length === 0) return Array.from({ length: partitions }, () => -1);
  const taken = new Map<number, number>();
  return Array.from({ length: partitions }, (_, partition) => {
    // The share grows with the partition, so that a topic that gets more partitions keeps the leaders of the others.
    const share = Math.floor(partition / ids.length) + 1;
    const best = ranked(
      `${topicId}/${partition}`,
      ids.filter((id) => (taken.get(id) ?? 0) < share),
    );
    taken.set(best, (taken.get(best) ?? 0) + 1);
    return best;
  });
}

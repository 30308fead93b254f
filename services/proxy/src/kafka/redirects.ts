import { partitionKey, type TopicRecord } from "@sluice/core/model";
import type { Clock } from "@sluice/runtime";
import type { KafkaCall } from "./api.ts";
import { kafkaLimits } from "./limits.ts";
import type { KafkaNode, Topology } from "./topology.ts";

/** Where a client should go instead. */
export interface Elsewhere {
  readonly node: KafkaNode;
  /** The epoch that clients know already: they take another leader at an equal epoch, or ask for the metadata. */
  readonly leaderEpoch: number;
}

/**
 * What a proxy that goes away tells the clients that still come, so that they have gone before their connections are closed. One whose
 * connections are all closed at once may know no other proxy by then: it begins anew from its bootstrap servers, and forgets its group's topics.
 * NOT_LEADER_OR_FOLLOWER makes every client ask for the metadata, on the connection that it has, and those of today go where the answer says.
 *
 * A connection hears it once for each partition, and is served if it comes back: a client that finds no other proxy loses nothing. Nothing that is
 * refused so was begun.
 */
export class Redirects {
  readonly #clock: Clock;
  readonly #topology: Topology;
  /** When a connection, by its signal, first heard it. */
  readonly #toldMs = new WeakMap<AbortSignal, Map<string, number>>();

  constructor(clock: Clock, topology: Topology) {
    this.#clock = clock;
    this.#topology = topology;
  }

  /** For a batch; those behind it in the pipeline are refused too, or they would overtake it. */
  produce(call: KafkaCall, topic: TopicRecord, partition: number): Elsewhere | undefined {
    return this.#elsewhere(call, topic, partition, "produce", kafkaLimits.redirectPipelineMs);
  }
  fetch(call: KafkaCall, topic: TopicRecord, partition: number): Elsewhere | undefined {
    return this.#elsewhere(call, topic, partition, "fetch", 0);
  }

  #elsewhere(call: KafkaCall, topic: TopicRecord, partition: number, what: string, againMs: number): Elsewhere | undefined {
    if (!call.ending.aborted) return undefined;
    const leader = this.#topology.leaders(topic)[partition];
    if (leader === undefined || leader === this.#topology.ownId) return undefined;
    const node = this.#topology.staying().find(({ nodeId }) => nodeId === leader);
    if (node === undefined) return undefined;
    const id = { topicId: topic.topicId, partition };
    if (!this.#tells(call.signal, `${what} ${partitionKey(id)}`, againMs)) return undefined;
    return { node, leaderEpoch: this.#topology.leaderEpoch(id) };
  }
  #tells(connection: AbortSignal, key: string, againMs: number): boolean {
    let told = this.#toldMs.get(connection);
    if (told === undefined) this.#toldMs.set(connection, (told = new Map()));
    const nowMs = this.#clock.monotonicMs();
    const firstMs = told.get(key);
    if (firstMs !== undefined) return nowMs - firstMs < againMs;
    told.set(key, nowMs);
    return true;
  }
}

/** KIP-951: the leader of a partition, and the addresses of all leaders of an answer; versions that do not have them leave them out. */
export const currentLeader = ({ node, leaderEpoch }: Elsewhere) => ({ leaderId: node.nodeId, leaderEpoch });
export const nodeEndpoints = (all: Iterable<Elsewhere>): KafkaNode[] => [
  ...new Map(Array.from(all, ({ node }) => [node.nodeId, node] as const)).values(),
];

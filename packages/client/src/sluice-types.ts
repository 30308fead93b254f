import type { Clock, Random } from "@sluice/runtime";
import type { GroupConsumer, Groups, SubscribeOptions, TopicPartition } from "./group-types.ts";
import type { ClientTracing } from "./tracing.ts";
import type { Admin, Consumer, ConsumerOptions, Producer, ProducerOptions } from "./types.ts";

export interface ConnectOptions {
  /** `host:port` of proxies. Any of them serves any partition; the client uses one and moves on when it fails. */
  readonly endpoints: readonly string[];
  /** Sent with every call, for logs and quotas of the servers. */
  readonly clientId?: string;
  /** How long `connect` tries, over all endpoints. Default 5,000. */
  readonly connectTimeoutMs?: number;
  /** Every call of `admin` and `groups`, retries included. Default 30,000. */
  readonly requestTimeoutMs?: number;
  /** Aborting closes the client at once: what is pending fails with CANCELLED. */
  readonly signal?: AbortSignal;
  /** The caller's active W3C trace context, asked once for every record and call; undefined = none. */
  readonly traceparent?: () => string | undefined;
  /** Spans of the client as part of the application's traces: `openTelemetry(api)`. Default: none. */
  readonly tracing?: ClientTracing;
  /** Told of state changes. Must not throw. */
  readonly onEvent?: (event: ClientEvent) => void;
  /** Time and randomness for tests; default the system's. Deadlines of single calls always follow the system's clock. */
  readonly clock?: Clock;
  readonly random?: Random;
}
export type ClientEvent =
  | { readonly type: "connected"; readonly endpoint: string }
  | { readonly type: "connection_lost"; readonly endpoint: string; readonly error: Error }
  | { readonly type: "new_producer_id"; readonly topic: string; readonly partition: number; readonly error: Error }
  | {
      readonly type: "rebalanced";
      readonly group: string;
      readonly assigned: readonly TopicPartition[];
      readonly revoked: readonly TopicPartition[];
    }
  | { readonly type: "group_lost"; readonly group: string; readonly error: Error }
  /** `last`: of a member that closes, so nobody tries again, and what was done since the commit before is given to the group again. */
  | { readonly type: "commit_failed"; readonly group: string; readonly error: Error; readonly last: boolean };

/** A connection to a cluster. Producers and consumers share it and are closed with it. */
export interface Sluice extends AsyncDisposable {
  readonly admin: Admin;
  readonly groups: Groups;
  /** The endpoint in use. */
  readonly endpoint: string;
  producer(options?: ProducerOptions): Producer;
  consumer(options: ConsumerOptions): Consumer;
  /** Reads as a member of a group: shares the partitions with its other members, goes on where the group was. */
  subscribe(options: SubscribeOptions): GroupConsumer;
  /** Flushes producers, ends consumers, closes the connection. Idempotent. */
  close(): Promise<void>;
}

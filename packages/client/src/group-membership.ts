import { asSluiceError, type ErrorCode, type SluiceError } from "@sluice/core/model";
import type { GroupHeartbeatResponse } from "@sluice/proto/v1/group";
import type { Timer } from "@sluice/runtime";
import { Backoff } from "./backoff.ts";
import type { Connection } from "./connection.ts";
import type { SubscribeOptions, TopicPartition } from "./group-types.ts";
import { partitionsOf, partitionsToWire, type WireTopic } from "./group-wire.ts";
import { clientTimers } from "./timing.ts";

export interface MembershipOwner {
  /** What is read now, also what is being given back. */
  owned(): readonly TopicPartition[];
  assigned(partitions: readonly TopicPartition[]): void;
  /** The group has gone on without this member. */
  lost(error: SluiceError): void;
  /** No retry helps. */
  failed(error: SluiceError): void;
}

/** The group knows this member no more, or in another epoch: it begins again. */
const LOST: ReadonlySet<ErrorCode> = new Set(["UNKNOWN_MEMBER", "FENCED_MEMBER_EPOCH"]);
const JOINS = 0;
const LEAVES = -1;
const LEAVES_FOR_A_WHILE = -2;
export const REBALANCE_TIMEOUT_MS_DEFAULT = 60_000;

/**
 * The member's side of a group that the server assigns:
 *
 *   join (epoch 0) ──► heartbeats with the epoch told last, at the interval told last, at once after partitions were given back ──► leave
 *      ▲                      │
 *      └──── told that it is out
 */
export class GroupMembership {
  readonly memberId: string;
  readonly #connection: Connection;
  readonly #options: SubscribeOptions;
  readonly #owner: MembershipOwner;
  readonly #backoff: Backoff;
  readonly #closing = new AbortController();
  #epoch = JOINS;
  /** Say everything: the last answer may not have been heard. */
  #tellAll = true;
  #wake: (() => void) | undefined;
  #woken = false;
  #running: Promise<void> | undefined;

  constructor(connection: Connection, options: SubscribeOptions, owner: MembershipOwner) {
    this.#connection = connection;
    this.#options = options;
    this.#owner = owner;
    this.#backoff = new Backoff(connection.random);
    this.memberId = connection.random.uuid();
  }
  get epoch(): number {
    return this.#epoch;
  }
  start(): void {
    this.#running = this.#run();
  }
  /** The next heartbeat is due now. */
  wake(): void {
    this.#woken = true;
    this.#wake?.();
  }
  /** Heartbeats end. */
  stop(): void {
    this.#closing.abort();
    this.#wake?.();
  }
  /** Says goodbye, once; whoever cannot be told finds out when the session ends. */
  async leave(): Promise<void> {
    this.stop();
    await this.#running;
    if (this.#epoch <= JOINS) return;
    const { instanceId = "" } = this.#options;
    const memberEpoch = instanceId === "" ? LEAVES : LEAVES_FOR_A_WHILE;
    this.#epoch = memberEpoch;
    await this.#connection
      .call((link, timeoutMs) => link.groups.heartbeat({ ...this.#name(), memberEpoch }, { timeoutMs }), {
        timeoutMs: clientTimers.groupLeaveMs,
        signal: undefined,
        repeatable: true,
      })
      .catch(() => undefined);
  }

  #name() {
    const { group, instanceId = "" } = this.#options;
    return { group, memberId: this.memberId, instanceId };
  }
  async #run(): Promise<void> {
    while (!this.#closing.signal.aborted) {
      let waitMs: number;
      try {
        this.#woken = false;
        waitMs = this.#heard(await this.#beat());
        this.#backoff.reset();
      } catch (thrown) {
        if (this.#closing.signal.aborted) return;
        waitMs = this.#refused(asSluiceError(thrown));
      }
      await this.#pause(waitMs);
    }
  }
  #beat(): Promise<GroupHeartbeatResponse> {
    const { topics = [], topicPattern = "", rackId = "", assignor = "", rebalanceTimeoutMs = REBALANCE_TIMEOUT_MS_DEFAULT } = this.#options;
    const told = this.#tellAll ? { rackId, assignor, rebalanceTimeoutMs, subscription: { topics: [...topics], topicPattern } } : {};
    const request = { ...this.#name(), memberEpoch: this.#epoch, owned: { topics: this.#owned() }, ...told };
    return this.#connection.call((link, timeoutMs, signal) => link.groups.heartbeat(request, { timeoutMs, ...(signal && { signal }) }), {
      timeoutMs: clientTimers.groupHeartbeatMs,
      signal: this.#closing.signal,
      repeatable: true,
    });
  }
  #owned(): WireTopic[] {
    if (this.#epoch === JOINS) return [];
    return partitionsToWire(this.#owner.owned());
  }
  /** Returns when to call again. */
  #heard({ memberEpoch, heartbeatIntervalMs, assignment }: GroupHeartbeatResponse): number {
    this.#epoch = memberEpoch;
    this.#tellAll = false;
    if (assignment !== undefined) this.#owner.assigned(partitionsOf(assignment.topics));
    return heartbeatIntervalMs;
  }
  #refused(error: SluiceError): number {
    this.#tellAll = true;
    if (LOST.has(error.code)) {
      this.#epoch = JOINS;
      this.#owner.lost(error);
      return this.#backoff.nextMs();
    }
    // A former self of the same name has not been given up yet: its session ends by itself.
    if (!error.retriable && error.code !== "UNRELEASED_INSTANCE_ID") {
      this.#closing.abort();
      this.#owner.failed(error);
    }
    return Math.max(error.throttleMs, this.#backoff.nextMs());
  }
  async #pause(ms: number): Promise<void> {
    if (this.#woken || this.#closing.signal.aborted) return;
    let timer: Timer | undefined;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      timer = this.#connection.clock.setTimer(ms, resolve);
    });
    timer?.cancel();
    this.#wake = undefined;
  }
}

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { apis, type OffsetCommitRequest, type Input } from "@sluice/kafka-wire";
import { KafkaClient } from "@sluice/proxy/testing";

const MEMBER_ID_REQUIRED = 79;
const UNKNOWN_MEMBER_ID = 25;

let commits = 0;

export interface WireMemberOptions {
  readonly address: string;
  readonly group: string;
  readonly topic: string;
  readonly topicId: string;
  readonly partitions: number;
  readonly sessionMs: number;
  readonly heartbeatMs: number;
}

/** A member of a group at the level of the wire: one connection, a heartbeat now and then, and a commit with each. */
export abstract class WireMember {
  protected readonly options: WireMemberOptions;
  protected readonly client: KafkaClient;
  readonly #running: Promise<void>;
  protected isDead = false;
  /** What it reads; undefined while it is between two assignments. */
  owned: readonly number[] | undefined;
  /** Generation or epoch. */
  epoch = -1;
  /** Marks of the commits that were answered without an error, by partition. */
  readonly committed = new Map<number, number>();

  protected constructor(client: KafkaClient, options: WireMemberOptions) {
    this.client = client;
    this.options = options;
    this.#running = sleep(0)
      .then(() => this.work())
      .catch((error: unknown) => {
        if (!this.isDead) throw error;
      });
    this.#running.catch(() => undefined);
  }
  protected abstract work(): Promise<void>;
  protected abstract get memberId(): string;

  /** Its process is gone: no goodbye. */
  async die(): Promise<void> {
    this.isDead = true;
    this.owned = undefined;
    await this.client[Symbol.asyncDispose]();
    await this.#running;
  }
  /** All that it reads, with a mark that only rises, whoever commits. Refusals are for a generation that is over: what was answered is what counts. */
  protected async commit(): Promise<void> {
    const { owned } = this;
    const { group, topic } = this.options;
    if (owned === undefined || owned.length === 0) return;
    const mark = (commits += 1);
    const partitions = owned.map((partitionIndex) => ({ partitionIndex, committedOffset: 0, committedMetadata: String(mark) }));
    const request: Input<OffsetCommitRequest> = {
      groupId: group,
      memberId: this.memberId,
      generationIdOrMemberEpoch: this.epoch,
      topics: [{ name: topic, partitions }],
    };
    const { topics } = await this.client.call(apis.OffsetCommit, 9, request);
    for (const { partitionIndex, errorCode } of topics[0]?.partitions ?? []) if (errorCode === 0) this.committed.set(partitionIndex, mark);
  }
}

/** Joins, and assigns when it leads. */
export class ClassicWireMember extends WireMember {
  memberId = "";
  static async start(options: WireMemberOptions): Promise<ClassicWireMember> {
    return new ClassicWireMember(await KafkaClient.connect(options.address), options);
  }

  protected async work(): Promise<void> {
    while (!this.isDead) {
      if (!(await this.#join())) continue;
      while (!this.isDead && (await this.#beat())) await sleep(this.options.heartbeatMs);
      this.owned = undefined;
    }
  }
  async #join(): Promise<boolean> {
    const { group, sessionMs, partitions } = this.options;
    const joined = await this.client.call(apis.JoinGroup, 9, {
      groupId: group,
      sessionTimeoutMs: sessionMs,
      rebalanceTimeoutMs: 30_000,
      memberId: this.memberId,
      protocolType: "consumer",
      protocols: [{ name: "range", metadata: new Uint8Array(50) }],
    });
    if (joined.errorCode === MEMBER_ID_REQUIRED) this.memberId = joined.memberId;
    if (joined.errorCode === UNKNOWN_MEMBER_ID) this.memberId = "";
    if (joined.errorCode !== 0) return false;
    this.epoch = joined.generationId;
    const assignments = joined.members.map(({ memberId }, i) => {
      const own = Array.from({ length: partitions }, (_, p) => p).filter((p) => p % joined.members.length === i);
      return { memberId, assignment: Buffer.from(own.join()) };
    });
    const synced = await this.client.call(apis.SyncGroup, 5, {
      groupId: group,
      generationId: this.epoch,
      memberId: this.memberId,
      protocolType: "consumer",
      protocolName: "range",
      assignments,
    });
    if (synced.errorCode !== 0) return false;
    this.owned = Buffer.from(synced.assignment).toString().split(",").map(Number);
    return true;
  }
  async #beat(): Promise<boolean> {
    const { memberId } = this;
    const { errorCode } = await this.client.call(apis.Heartbeat, 4, { groupId: this.options.group, generationId: this.epoch, memberId });
    // Told to join again, it commits what it has first, as consumers do.
    await this.commit();
    return errorCode === 0;
  }
}

/** Is assigned by the server (KIP-848). */
export class ServedWireMember extends WireMember {
  readonly memberId = randomUUID();
  static async start(options: WireMemberOptions): Promise<ServedWireMember> {
    return new ServedWireMember(await KafkaClient.connect(options.address), options);
  }

  protected async work(): Promise<void> {
    this.epoch = 0;
    while (!this.isDead) {
      await this.#beat();
      await sleep(this.options.heartbeatMs);
    }
  }
  async #beat(): Promise<void> {
    const { group, topic, topicId } = this.options;
    const joins = this.epoch === 0;
    const owned = (joins ? [] : this.owned) ?? [];
    const answer = await this.client.call(apis.ConsumerGroupHeartbeat, 1, {
      groupId: group,
      memberId: this.memberId,
      memberEpoch: this.epoch,
      rebalanceTimeoutMs: joins ? 30_000 : -1,
      subscribedTopicNames: joins ? [topic] : null,
      topicPartitions: owned.length === 0 ? [] : [{ topicId, partitions: owned }],
    });
    if (answer.errorCode !== 0) {
      this.epoch = 0;
      this.owned = undefined;
      return;
    }
    this.epoch = answer.memberEpoch;
    if (answer.assignment !== null) {
      // What is taken away is committed before it is given back.
      await this.commit();
      this.owned = answer.assignment.topicPartitions.flatMap(({ partitions }) => partitions);
    }
    await this.commit();
  }
}

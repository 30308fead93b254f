import type { Keys } from "@sluice/catalog";
import { memberCodec, partitionStateCodec, segmentCodec, startCodec } from "@sluice/catalog";
import { codeOf, partitionKey, type PartitionId, type PartitionState } from "@sluice/core/model";
import type { Input, MetaGetEffect, MetaGotInput, MetaTxnEffect, Register } from "@sluice/core/partition";
import type { Compare, KeyValue, MetadataStore, Op } from "@sluice/metadata";
import { ByteBudget } from "@sluice/runtime";

/**
 * Calls of one broker that are under way at a time; further ones wait. Thousands of partitions that all write at once would make every answer late, and what is
 * late is sent again.
 */
const CALLS_MAX = 64;
/** Each partition has one read and one write that wait, rarely more: as many as there may be partitions. */
const CALLS_WAITING_MAX = 200_000;

/** Performs the metadata effects of one partition machine. Never throws: every failure is an input that says what is known of it. */
export interface MetadataCalls {
  get(partition: PartitionId, effect: MetaGetEffect): Promise<Input>;
  txn(partition: PartitionId, effect: MetaTxnEffect): Promise<Input>;
  /** Calls that have not been sent, because as many as may be are under way. */
  readonly waiting: number;
}

/** Key and revision of the topic record, as far as the copy of the metadata knows; undefined = there is no such topic. */
export type TopicGuard = (partition: PartitionId) => { readonly key: string; readonly modRevision: number } | undefined;

export function createMetadataCalls(store: MetadataStore, keys: Keys, topicGuard: TopicGuard): MetadataCalls {
  const calls = new ByteBudget({ name: "metadata calls", limitBytes: CALLS_MAX, waitersMax: CALLS_WAITING_MAX });
  const unsent = new Map<string, Promise<unknown>>();
  /**
   * A call that is made again while it waits joins the earlier one, which keeps its place and is still to be sent: a machine asks again after some
   * seconds, and with a metadata store that does not answer the queue would grow without an end, with calls that nobody waits for any more.
   */
  const inTurn = <T>(key: string, call: () => Promise<T>): Promise<T> => {
    const run = (): Promise<T> => call().finally(() => calls.release(1));
    if (calls.tryTake(1)) return run();
    const earlier = unsent.get(key) as Promise<T> | undefined;
    if (earlier !== undefined) return earlier;
    const turn = calls
      .take(1)
      .finally(() => unsent.delete(key))
      .then(run);
    unsent.set(key, turn);
    return turn;
  };
  const register = (entry: KeyValue | undefined): Register => ({
    state: entry === undefined ? undefined : partitionStateCodec.decode(entry.value),
    modRevision: entry?.modRevision ?? 0,
  });
  const logStart = (entry: KeyValue | undefined): number => (entry === undefined ? 0 : startCodec.decode(entry.value).offset);

  const ownerAlive = async (state: PartitionState | undefined): Promise<boolean> => {
    if (state === undefined) return false;
    const { entry } = await store.get(keys.member("broker", state.owner));
    return entry !== undefined && memberCodec.decode(entry.value).instance === state.ownerInstance;
  };

  const look = async (partition: PartitionId): Promise<Pick<MetaGotInput, "register" | "ownerAlive" | "logStart">> => {
    const { results } = await store.txn({
      compare: [],
      then: [
        { kind: "get", key: keys.state(partition) },
        { kind: "get", key: keys.start(partition) },
      ],
    });
    const found = register(entryOf(results[0]));
    return { register: found, ownerAlive: await ownerAlive(found.state), logStart: logStart(entryOf(results[1])) };
  };

  return {
    get waiting() {
      return calls.waiting;
    },
    async get(partition, { call }) {
      try {
        const found = await inTurn(`${partitionKey(partition)} read`, () => look(partition));
        return { kind: "metaGot", call, outcome: "ok", ...found };
      } catch {
        return { kind: "metaGot", call, outcome: "failed" };
      }
    },

    async txn(partition, effect) {
      const { call, expectedRevision, state, segments, readSegment } = effect;
      const stateKey = keys.state(partition);
      const compare: Compare[] = [{ key: stateKey, target: "mod", equals: expectedRevision }];
      if (expectedRevision === 0) {
        // The first register of a partition: not for a topic that was removed meanwhile, or it would come to life again.
        const topic = topicGuard(partition);
        if (topic === undefined) return { kind: "metaTxnDone", call, outcome: "unavailable" };
        compare[0] = { key: stateKey, target: "create", equals: 0 };
        compare.push({ key: topic.key, target: "mod", equals: topic.modRevision });
      }
      const reads: Op[] = [
        { kind: "get", key: stateKey },
        { kind: "get", key: keys.start(partition) },
      ];
      if (readSegment !== undefined) reads.push({ kind: "get", key: keys.segment(partition, readSegment.base, readSegment.segment) });
      const writes: Op[] = [{ kind: "put", key: stateKey, value: partitionStateCodec.encode(state) }];
      for (const record of segments) {
        writes.push({ kind: "put", key: keys.segment(partition, record.base, record.segment), value: segmentCodec.encode(record) });
      }
      try {
        const key = `${partitionKey(partition)} ${state.nonce} ${expectedRevision}`;
        const done = await inTurn(key, () => store.txn({ compare, then: [...writes, ...reads], else: reads }));
        const at = done.succeeded ? writes.length : 0;
        const segment = readSegment === undefined ? undefined : entryOf(done.results[at + 2]);
        return {
          kind: "metaTxnDone",
          call,
          outcome: done.succeeded ? "applied" : "compareFailed",
          register: register(entryOf(done.results[at])),
          logStart: logStart(entryOf(done.results[at + 1])),
          ...(segment === undefined ? {} : { segment: segmentCodec.decode(segment.value) }),
        };
      } catch (error) {
        // Anything but a plain "nothing was sent" may still be applied.
        return { kind: "metaTxnDone", call, outcome: codeOf(error) === "METADATA_UNAVAILABLE" ? "unavailable" : "unknown" };
      }
    },
  };
}

function entryOf(result: { readonly kind: string } | undefined): KeyValue | undefined {
  const range = result as { readonly kind: string; readonly entries?: readonly KeyValue[] } | undefined;
  return range?.kind === "range" ? range.entries?.[0] : undefined;
}

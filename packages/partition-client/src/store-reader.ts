import type { ClusterView } from "@sluice/catalog";
import {
  codeOf,
  errorCodeOf,
  limits,
  SluiceError,
  type ErrorCode,
  type MemberId,
  type PartitionId,
  type ReplicaId,
  type SegmentId,
  type Timers,
} from "@sluice/core/model";
import { dataCodec, readCodec, ReconnectingLink, call, type LinkContext } from "@sluice/link";
import { SegmentStoreService } from "@sluice/proto/internal/v1/segment_store";
import { createRpcClient, type RpcClient } from "@sluice/rpc";
import type { Clock } from "@sluice/runtime";

export interface StoreRead {
  readonly partition: PartitionId;
  readonly segment: SegmentId;
  readonly from: number;
  readonly maxBytes: number;
  /** Last committed offset (inclusive) and the epoch it was published for; -1 = none known. */
  readonly committed: number;
  readonly committedEpoch: number;
}
export interface StoreData {
  /** Whole batches; the first may begin before `from`. Empty when nothing may be served from there. */
  readonly payload: Uint8Array;
  /** Highest offset that the node may serve now. */
  readonly limit: number;
  /** True when `limit` is the segment's end. */
  readonly sealed: boolean;
}
interface Node {
  readonly address: string;
  readonly incarnation: string;
  readonly link: ReconnectingLink;
}

/** The node or the way to it is at fault, not the segment. */
const NODE_FAULTS: ReadonlySet<ErrorCode> = new Set([
  "LINK_DOWN",
  "TIMED_OUT",
  "OUTCOME_UNKNOWN",
  "OVERLOADED",
  "SHUTTING_DOWN",
  "IO_FAILED",
]);

/** Reads of segments from storage nodes, over a bulk link to each. A node that failed is asked last for a while. */
export class StoreReader {
  readonly #context: LinkContext;
  readonly #view: ClusterView;
  readonly #timers: Timers;
  readonly #clock: Clock;
  readonly #nodes = new Map<MemberId, Node>();
  readonly #clients = new Map<string, RpcClient<typeof SegmentStoreService>>();
  readonly #failedUntil = new Map<MemberId, number>();
  readonly #unsubscribe: () => void;
  #turn = 0;

  constructor(context: LinkContext, view: ClusterView) {
    this.#context = context;
    this.#view = view;
    this.#timers = context.timers;
    this.#clock = context.clock;
    this.#unsubscribe = view.onChange((changes) => {
      if (changes.some((change) => change.kind === "member" && change.service === "segment-store")) this.#prune();
    });
  }

  /** Replicas in the order in which they should be asked: alive ones first, the load spread over them. */
  order(replicas: readonly ReplicaId[]): ReplicaId[] {
    const now = this.#clock.monotonicMs();
    const start = this.#turn++;
    const rank = (r: ReplicaId): number => {
      const member = this.#view.member("segment-store", r.node);
      if (member?.incarnation !== r.incarnation) return 2;
      const down = this.#nodes.get(r.node)?.link.state.kind === "down";
      return down || (this.#failedUntil.get(r.node) ?? 0) > now ? 1 : 0;
    };
    return replicas
      .map((r, i) => ({ r, rank: rank(r), turn: (i + start) % replicas.length }))
      .sort((a, b) => a.rank - b.rank || a.turn - b.turn)
      .map(({ r }) => r);
  }

  /** One read from one node. Throws what the node or the link said; the caller goes on to the next copy. */
  async read(replica: ReplicaId, request: StoreRead): Promise<StoreData> {
    const node = this.#node(replica);
    if (node === undefined) throw new SluiceError("READ_UNAVAILABLE", `storage node ${replica.node} is away`);
    try {
      const link = node.link.link ?? (await node.link.ready(this.#timers.linkConnectTimeoutMs));
      const answer = await call(
        link,
        readCodec,
        {
          topicId: request.partition.topicId,
          partition: request.partition.partition,
          segmentEpoch: request.segment.epoch,
          segmentK: request.segment.k,
          maxBytes: Math.min(request.maxBytes, limits.readRunBytesMax),
          from: request.from,
          highWatermark: request.committed,
          highWatermarkEpoch: request.committedEpoch,
        },
        dataCodec,
        this.#timers.controlCallTimeoutMs,
      );
      link.release(answer.creditBytes);
      const { code, sealed, limit } = answer.message;
      if (code !== 0) throw new SluiceError(errorCodeOf(code), `storage node ${replica.node} cannot serve the segment`);
      return { payload: answer.payload, limit, sealed };
    } catch (error) {
      // What a node says about one segment is no reason to ask it last for others.
      if (!NODE_FAULTS.has(codeOf(error))) throw error;
      this.#failedUntil.set(replica.node, this.#clock.monotonicMs() + this.#timers.controlCallTimeoutMs);
      throw error;
    }
  }

  /** Offset where a scan for the first record at or after `timestampMs` should start; -1 = none in this segment. */
  async lookupTimestamp(replica: ReplicaId, partition: PartitionId, segment: SegmentId, timestampMs: number): Promise<number> {
    const address = this.#view.member("segment-store", replica.node)?.endpoints.rpc;
    if (address === undefined) throw new SluiceError("READ_UNAVAILABLE", `storage node ${replica.node} is away`);
    let client = this.#clients.get(address);
    if (client === undefined) {
      client = createRpcClient(SegmentStoreService, address, { clock: this.#clock });
      this.#clients.set(address, client);
    }
    const reply = await client.lookupTimestamp(
      {
        address: { topicId: partition.topicId, partition: partition.partition, epoch: segment.epoch, k: segment.k },
        timestampMs: BigInt(timestampMs),
      },
      { timeoutMs: this.#timers.controlCallTimeoutMs },
    );
    if (reply.code !== 0) throw new SluiceError(errorCodeOf(reply.code), reply.message);
    return Number(reply.offset);
  }

  /** Ends links to nodes that were formatted anew or live elsewhere now: they would be dialled, and refused, for ever. */
  #prune(): void {
    for (const [id, node] of this.#nodes) {
      const member = this.#view.member("segment-store", id);
      if (member === undefined || (member.incarnation === node.incarnation && member.endpoints.link === node.address)) continue;
      node.link.close();
      this.#nodes.delete(id);
    }
    const addresses = new Set(this.#view.membersOf("segment-store").map(({ endpoints }) => endpoints.rpc));
    for (const [address, client] of this.#clients) {
      if (addresses.has(address)) continue;
      client.close();
      this.#clients.delete(address);
    }
  }
  close(): void {
    this.#unsubscribe();
    for (const { link } of this.#nodes.values()) link.close();
    for (const client of this.#clients.values()) client.close();
    this.#nodes.clear();
    this.#clients.clear();
  }

  #node(replica: ReplicaId): Node | undefined {
    const member = this.#view.member("segment-store", replica.node);
    let node = this.#nodes.get(replica.node);
    const address = member?.endpoints.link ?? node?.address;
    if (address === undefined || (member !== undefined && member.incarnation !== replica.incarnation)) return undefined;
    if (node !== undefined && (node.address !== address || node.incarnation !== replica.incarnation)) {
      node.link.close();
      this.#nodes.delete(replica.node);
      node = undefined;
    }
    if (node === undefined) {
      const link = new ReconnectingLink(this.#context, {
        address,
        purpose: "bulk",
        expect: { service: "segment-store", memberId: replica.node, incarnation: replica.incarnation },
        handlers: { onFrame: (from, frame) => from.release(frame.creditBytes) },
      });
      node = { address, incarnation: replica.incarnation, link };
      this.#nodes.set(replica.node, node);
    }
    return node;
  }
}

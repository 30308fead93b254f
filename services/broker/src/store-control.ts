import { codeOf, type MemberId, type ReplicaId } from "@sluice/core/model";
import type { ControlAnswer, ControlRequest } from "@sluice/core/partition";
import type { CreateRequest, FenceRequest, SealRequest } from "@sluice/core/replica";
import { SegmentStoreService } from "@sluice/proto/internal/v1/segment_store";
import { createRpcClient, type RpcClient } from "@sluice/rpc";
import type { Clock } from "@sluice/runtime";
import * as messages from "./control-messages.ts";
import type { BrokerMetrics } from "./metrics.ts";

/** Requests of one kind that wait for the end of the turn, to go out as one call. */
const BULK_MAX = 128;

export interface StoreControlOptions {
  readonly clock: Clock;
  readonly metrics: BrokerMetrics;
  /** gRPC address of a storage node at this incarnation; undefined when it is not a member now. */
  address(replica: ReplicaId): string | undefined;
}

interface Waiting<R> {
  readonly request: R;
  readonly timeoutMs: number;
  readonly resolve: (answer: ControlAnswer) => void;
}
interface Node {
  readonly address: string;
  readonly client: RpcClient<typeof SegmentStoreService>;
  readonly create: Waiting<CreateRequest>[];
  readonly fence: Waiting<FenceRequest>[];
  readonly seal: Waiting<SealRequest>[];
  scheduled: boolean;
}

/**
 * Control calls to storage nodes. After a death many partitions fence, create and seal at once: those of one turn and one node share a call,
 * and one fsync there.
 */
export class StoreControl {
  readonly #options: StoreControlOptions;
  readonly #nodes = new Map<MemberId, Node>();

  constructor(options: StoreControlOptions) {
    this.#options = options;
  }

  async call(to: ReplicaId, timeoutMs: number, body: ControlRequest): Promise<ControlAnswer> {
    const started = this.#options.clock.monotonicMs();
    const node = this.#node(to);
    if (node === undefined) return { kind: "failed", failure: "refused", sent: false };
    const answer = await this.#dispatch(node, timeoutMs, body);
    this.#options.metrics.controlSeconds.labels(body.kind).observe((this.#options.clock.monotonicMs() - started) / 1000);
    return answer;
  }
  close(): void {
    for (const node of this.#nodes.values()) node.client.close();
    this.#nodes.clear();
  }

  #dispatch(node: Node, timeoutMs: number, body: ControlRequest): Promise<ControlAnswer> {
    switch (body.kind) {
      case "create":
        return this.#enqueue(node, node.create, body.request, timeoutMs);
      case "fence":
        return this.#enqueue(node, node.fence, body.request, timeoutMs);
      case "seal":
        return this.#enqueue(node, node.seal, body.request, timeoutMs);
      case "recoveryAppend":
        return settle(
          node.client.recoveryAppend(messages.recoveryAppend(body.request), { timeoutMs }).then((m) => ({
            kind: "recoveryAppend",
            answer: { code: m.code, message: m.message, last: Number(m.last), chainHash: m.chainHash },
          })),
        );
      case "recoveryRead":
        return settle(
          node.client.recoveryRead(messages.recoveryRead(body.request), { timeoutMs }).then((m) => ({
            kind: "recoveryRead",
            answer: { code: m.code, message: m.message, payload: m.payload },
          })),
        );
      case "rebuild":
        return settle(
          node.client.rebuild(messages.rebuild(body.request), { timeoutMs }).then((m) => ({
            kind: "rebuild",
            answer: { code: m.code, message: m.message, segmentNumber: m.segmentNumber },
          })),
        );
    }
  }

  #enqueue<R>(node: Node, queue: Waiting<R>[], request: R, timeoutMs: number): Promise<ControlAnswer> {
    return new Promise((resolve) => {
      queue.push({ request, timeoutMs, resolve });
      if (node.scheduled) return;
      node.scheduled = true;
      this.#options.clock.afterTurn(() => {
        node.scheduled = false;
        void this.#flush(node);
      });
    });
  }

  async #flush(node: Node): Promise<void> {
    const { client } = node;
    await Promise.all([
      bulk(node.create, async (requests, timeoutMs) => {
        const reply = await client.createSegments({ segments: requests.map(messages.createSegment) }, { timeoutMs });
        return reply.results.map((m) => ({ kind: "create", answer: messages.createAnswer(m) }));
      }),
      bulk(node.fence, async (requests, timeoutMs) => {
        const reply = await client.fenceSegments({ segments: requests.map(messages.fenceSegment) }, { timeoutMs });
        return reply.results.map((m) => ({ kind: "fence", answer: messages.fenceAnswer(m) }));
      }),
      bulk(node.seal, async (requests, timeoutMs) => {
        const reply = await client.sealSegments({ segments: requests.map(messages.sealSegment) }, { timeoutMs });
        return reply.results.map((m) => ({ kind: "seal", answer: messages.sealAnswer(m) }));
      }),
    ]);
  }

  #node(to: ReplicaId): Node | undefined {
    const address = this.#options.address(to);
    let node = this.#nodes.get(to.node);
    if (node !== undefined && node.address !== address) {
      node.client.close();
      this.#nodes.delete(to.node);
      node = undefined;
    }
    if (address === undefined) return undefined;
    if (node === undefined) {
      const client = createRpcClient(SegmentStoreService, address, { clock: this.#options.clock });
      node = { address, client, create: [], fence: [], seal: [], scheduled: false };
      this.#nodes.set(to.node, node);
    }
    return node;
  }
}

async function bulk<R>(queue: Waiting<R>[], send: (requests: R[], timeoutMs: number) => Promise<ControlAnswer[]>): Promise<void> {
  const all = queue.splice(0);
  const groups: Promise<void>[] = [];
  for (let at = 0; at < all.length; at += BULK_MAX) {
    const part = all.slice(at, at + BULK_MAX);
    const timeoutMs = Math.min(...part.map((w) => w.timeoutMs));
    const requests = part.map((w) => w.request);
    groups.push(
      send(requests, timeoutMs)
        .catch((error: unknown) => part.map(() => failed(error)))
        .then((answers) => {
          part.forEach((w, i) => w.resolve(answers[i] ?? { kind: "failed", failure: "reset", sent: true }));
        }),
    );
  }
  await Promise.all(groups);
}

function settle(answer: Promise<ControlAnswer>): Promise<ControlAnswer> {
  return answer.catch(failed);
}
/** UNREACHABLE is the one failure that says that nothing was sent. */
function failed(error: unknown): ControlAnswer {
  const code = codeOf(error);
  if (code === "UNREACHABLE") return { kind: "failed", failure: "refused", sent: false };
  return { kind: "failed", failure: code === "TIMED_OUT" ? "timeout" : "reset", sent: true };
}

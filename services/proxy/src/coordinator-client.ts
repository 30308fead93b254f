import type { ClusterView } from "@sluice/catalog";
import { shardOfGroup } from "@sluice/core/group";
import { checkGroupName, codeOf, SluiceError, type ErrorCode, type Timers } from "@sluice/core/model";
import { CoordinatorService } from "@sluice/proto/internal/v1/coordinator";
import type { ListedGroup, ListGroupsRequest } from "@sluice/proto/v1/group";
import type { CallContext, ChannelPool, RpcClient } from "@sluice/rpc";
import type { Clock } from "@sluice/runtime";
import { answerDeadline } from "./answer-deadline.ts";
import { proxyLimits } from "./limits.ts";
import { PeerClients } from "./peer-clients.ts";

export interface CoordinatorClientOptions {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly view: ClusterView;
  readonly channels: ChannelPool;
}
type Client = RpcClient<typeof CoordinatorService>;
/**
 *   question   changes nothing: may be asked twice
 *   change     asked again only while nothing was done
 *   waiting    the same, and the answer may take as long as the caller has
 */
export type CallKind = "question" | "change" | "waiting";
/** How long the caller has, on the monotonic clock, and when it gives up. */
export type Caller = Pick<CallContext, "deadlineMs" | "signal">;
export interface CoordinatorCallOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}
/** Nothing was done: another attempt is safe. */
const AGAIN: ReadonlySet<ErrorCode> = new Set(["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "UNREACHABLE", "NOT_READY"]);
/** For questions, which change nothing, an unknown outcome is no matter. */
const AGAIN_QUESTION: ReadonlySet<ErrorCode> = new Set([...AGAIN, "OUTCOME_UNKNOWN", "TIMED_OUT", "SHUTTING_DOWN"]);

/** A group belongs to shard `hash(group) mod shards`, a shard to one coordinator at a time. */
export class CoordinatorClient {
  readonly #options: CoordinatorClientOptions;
  readonly #clients: PeerClients<typeof CoordinatorService>;

  constructor(options: CoordinatorClientOptions) {
    this.#options = options;
    this.#clients = new PeerClients(CoordinatorService, options.channels);
  }

  /** Tries again, at whoever has the shard by then, until the deadline. Throws what the coordinator said, or COORDINATOR_NOT_AVAILABLE. */
  async call<R>(
    group: string,
    caller: Caller,
    kind: CallKind,
    send: (client: Client, options: CoordinatorCallOptions) => Promise<R>,
  ): Promise<R> {
    checkGroupName(group);
    const shards = this.#options.view.cluster?.shardCount ?? 0;
    return this.#try(shards === 0 ? undefined : shardOfGroup(group, shards), caller, kind, send);
  }

  /** Groups of the whole cluster, in order of name; each shard's coordinator is asked. */
  async list(request: ListGroupsRequest, caller: Caller): Promise<{ groups: ListedGroup[]; more: boolean }> {
    const shards = this.#options.view.cluster?.shardCount ?? 0;
    const limit = request.limit === 0 ? proxyLimits.listedGroupsMax : Math.min(request.limit, proxyLimits.listedGroupsMax);
    const page = { ...request, limit };
    const parts = await Promise.all(
      Array.from({ length: shards }, (_, shard) =>
        this.#try(shard, caller, "question", (client, options) => client.listShardGroups({ shard, request: page }, options)),
      ),
    );
    const all = parts
      .flatMap(({ response }) => response?.groups ?? [])
      .sort((a, b) => (a.group < b.group ? -1 : a.group > b.group ? 1 : 0));
    return { groups: all.slice(0, limit), more: all.length > limit || parts.some(({ response }) => response?.more === true) };
  }

  async #try<R>(
    shard: number | undefined,
    caller: Caller,
    kind: CallKind,
    send: (client: Client, options: CoordinatorCallOptions) => Promise<R>,
  ): Promise<R> {
    const { clock, timers } = this.#options;
    const deadlineMs = kind === "waiting" ? caller.deadlineMs : answerDeadline(clock, timers, caller.deadlineMs - clock.monotonicMs());
    const again = kind === "question" ? AGAIN_QUESTION : AGAIN;
    for (;;) {
      const leftMs = Math.max(1, deadlineMs - clock.monotonicMs());
      try {
        return await send(this.#clientOf(shard), {
          timeoutMs: kind === "question" ? Math.min(leftMs, timers.controlCallTimeoutMs) : leftMs,
          signal: caller.signal,
        });
      } catch (error) {
        if (!again.has(codeOf(error)) || deadlineMs - clock.monotonicMs() <= proxyLimits.routeRetryMs) throw error;
        await clock.sleep(proxyLimits.routeRetryMs, caller.signal);
      }
    }
  }

  #clientOf(shard: number | undefined): Client {
    const { view } = this.#options;
    const owner = shard === undefined ? undefined : view.shards.get(shard)?.record.coordinator;
    const address = owner === undefined ? undefined : view.member("coordinator", owner)?.endpoints.rpc;
    if (address === undefined) throw new SluiceError("COORDINATOR_NOT_AVAILABLE", "no coordinator has the group's shard now");
    return this.#clients.get(address);
  }
}

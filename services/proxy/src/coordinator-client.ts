import type { ClusterView } from "@sluice/catalog";
import { checkName, codeOf, partitionOfKey, SluiceError, type ErrorCode, type Timers } from "@sluice/core/model";
import { CoordinatorService } from "@sluice/proto/internal/v1/coordinator";
import type { CallContext, ChannelPool, RpcClient } from "@sluice/rpc";
import type { Clock } from "@sluice/runtime";
import { proxyLimits } from "./limits.ts";
import { PeerClients } from "./peer-clients.ts";

export interface CoordinatorClientOptions {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly view: ClusterView;
  readonly channels: ChannelPool;
}
type Client = RpcClient<typeof CoordinatorService>;
interface Options {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}
/** Nothing was done: another attempt is safe. */
const AGAIN: ReadonlySet<ErrorCode> = new Set(["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "UNREACHABLE", "NOT_READY"]);
/** For questions, which change nothing, an unknown outcome is no matter. */
const AGAIN_QUESTION: ReadonlySet<ErrorCode> = new Set([...AGAIN, "OUTCOME_UNKNOWN", "TIMED_OUT", "SHUTTING_DOWN"]);
const utf8 = new TextEncoder();

/** A group belongs to shard `hash(group) mod shards`, a shard to one coordinator at a time. */
export class CoordinatorClient {
  readonly #options: CoordinatorClientOptions;
  readonly #clients: PeerClients<typeof CoordinatorService>;

  constructor(options: CoordinatorClientOptions) {
    this.#options = options;
    this.#clients = new PeerClients(CoordinatorService, options.channels);
  }

  /** Tries again, at whoever has the shard by then, until the deadline. Throws what the coordinator said, or COORDINATOR_NOT_AVAILABLE. */
  async call<R>(group: string, call: CallContext, question: boolean, send: (client: Client, options: Options) => Promise<R>): Promise<R> {
    const { clock, timers } = this.#options;
    checkName("group", group);
    const deadlineMs = Math.min(call.deadlineMs, clock.monotonicMs() + timers.produceHoldMs);
    const again = question ? AGAIN_QUESTION : AGAIN;
    for (;;) {
      const leftMs = Math.max(1, deadlineMs - clock.monotonicMs());
      try {
        return await send(this.#clientOf(group), {
          timeoutMs: question ? Math.min(leftMs, timers.controlCallTimeoutMs) : leftMs,
          signal: call.signal,
        });
      } catch (error) {
        if (!again.has(codeOf(error)) || deadlineMs - clock.monotonicMs() <= proxyLimits.routeRetryMs) throw error;
        await clock.sleep(proxyLimits.routeRetryMs, call.signal);
      }
    }
  }

  #clientOf(group: string): Client {
    const { view } = this.#options;
    const shards = view.cluster?.shardCount ?? 0;
    const shard = shards === 0 ? undefined : view.shards.get(partitionOfKey(utf8.encode(group), shards))?.record;
    const address = shard === undefined ? undefined : view.member("coordinator", shard.coordinator)?.endpoints.rpc;
    if (address === undefined) throw new SluiceError("COORDINATOR_NOT_AVAILABLE", "no coordinator has the group's shard now");
    return this.#clients.get(address);
  }
}

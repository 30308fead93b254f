import type { ClusterView } from "@sluice/catalog";
import { codeOf, memberId, SluiceError, type ErrorCode, type MemberId, type ServiceKind, type Timers } from "@sluice/core/model";
import { ControllerService } from "@sluice/proto/internal/v1/controller";
import type { ChannelPool, RpcClient } from "@sluice/rpc";
import type { Clock, Logger } from "@sluice/runtime";
import type { ServiceIdentity } from "@sluice/service";
import { proxyLimits } from "./limits.ts";
import { PeerClients } from "./peer-clients.ts";

export interface ControllerClientOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly timers: Timers;
  readonly view: ClusterView;
  readonly identity: ServiceIdentity;
  readonly channels: ChannelPool;
  /** The metadata store does not answer now, as far as is known here. */
  readonly metadataStale: () => boolean;
}
export type LeaderClient = RpcClient<typeof ControllerService>;
/** Nothing was done: another attempt is safe. */
const AGAIN: ReadonlySet<ErrorCode> = new Set(["NOT_LEADER", "UNREACHABLE", "SHUTTING_DOWN", "NOT_READY"]);
/** Reports about one member are joined for this long, ms. */
const REPORT_QUIET_MS = 200;

/** Calls to the controller that leads, and reports of brokers that died. */
export class ControllerClient {
  readonly #options: ControllerClientOptions;
  readonly #reported = new Map<string, number>();
  readonly #clients: PeerClients<typeof ControllerService>;

  constructor(options: ControllerClientOptions) {
    this.#options = options;
    this.#clients = new PeerClients(ControllerService, options.channels);
  }

  /** Tries again, at whoever leads by then, until the deadline. Throws what the controller said, or NOT_LEADER, UNREACHABLE, OUTCOME_UNKNOWN. */
  async call<R>(deadlineMs: number, signal: AbortSignal, send: (client: LeaderClient, timeoutMs: number) => Promise<R>): Promise<R> {
    const { clock } = this.#options;
    for (;;) {
      const leftMs = deadlineMs - clock.monotonicMs();
      try {
        const client = this.#leader();
        if (client === undefined) throw new SluiceError("NOT_LEADER", "no controller leads now");
        return await send(client, Math.max(1, leftMs));
      } catch (error) {
        if (!AGAIN.has(codeOf(error)) || deadlineMs - clock.monotonicMs() <= proxyLimits.routeRetryMs) throw this.#told(error);
        await clock.sleep(proxyLimits.routeRetryMs, signal);
      }
    }
  }

  /** A member's link was reset or refused: the controller looks at once, and orders a takeover when it cannot reach it either. */
  report(service: ServiceKind, id: MemberId, reason: string): void {
    const { clock, view, timers, identity, logger } = this.#options;
    const member = view.member(service, id);
    const now = clock.monotonicMs();
    if (member === undefined || now - (this.#reported.get(member.instance) ?? -Infinity) < REPORT_QUIET_MS) return;
    for (const [instance, atMs] of this.#reported) if (now - atMs >= REPORT_QUIET_MS) this.#reported.delete(instance);
    this.#reported.set(member.instance, now);
    this.#leader()
      ?.reportPeer({ service, id, instance: member.instance, reporter: identity.id, reason }, { timeoutMs: timers.controlCallTimeoutMs })
      .catch((error: unknown) => logger.debug("peer report not delivered", { peer: id, code: codeOf(error) }));
  }

  /** An address of the cluster's inside, and what was left of the time, say nothing to who asked. */
  #told(error: unknown): unknown {
    if (codeOf(error) !== "TIMED_OUT") return error;
    const why = this.#options.metadataStale() ? ": the metadata store does not answer" : "";
    return new SluiceError("TIMED_OUT", `the controller did not answer in time${why}; the change may have been made or not`, {
      cause: error,
    });
  }
  #leader(): LeaderClient | undefined {
    const { view } = this.#options;
    const leader = view.leader;
    const address = leader === undefined ? undefined : view.member("controller", memberId(leader.member))?.endpoints.rpc;
    return address === undefined ? undefined : this.#clients.get(address);
  }
}

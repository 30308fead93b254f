import type { ClusterView } from "@sluice/catalog";
import { codeOf, type MemberId, type ServiceKind, type Timers } from "@sluice/core/model";
import { ControllerService } from "@sluice/proto/internal/v1/controller";
import { createRpcClient, type RpcClient } from "@sluice/rpc";
import type { Clock, Logger, Timer } from "@sluice/runtime";
import type { ServiceIdentity } from "@sluice/service";

export interface ControllerLinkOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly timers: Timers;
  readonly view: ClusterView;
  readonly identity: ServiceIdentity;
  readonly load: () => { readonly appendBytesPerSecond: number; readonly openPartitions: number };
  readonly onSuspects: (suspects: ReadonlySet<string>) => void;
}
/** Reports about one member are joined for this long, ms. */
const REPORT_QUIET_MS = 200;

/** Heartbeats to the leading controller, reports of peers that died, and the request to be relieved of all partitions. */
export class ControllerLink {
  readonly #options: ControllerLinkOptions;
  readonly #reported = new Map<string, number>();
  #client: RpcClient<typeof ControllerService> | undefined;
  #address: string | undefined;
  #timer: Timer | undefined;
  #stopped = false;

  constructor(options: ControllerLinkOptions) {
    this.#options = options;
  }
  start(): void {
    this.#beat();
  }
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#client?.close();
  }

  /** A peer's link was reset or refused: the controller looks at once. */
  report(service: ServiceKind, id: MemberId, reason: string): void {
    const { clock, view, timers, identity, logger } = this.#options;
    const member = view.member(service, id);
    const now = clock.monotonicMs();
    if (member === undefined || now - (this.#reported.get(`${service}/${id}`) ?? -Infinity) < REPORT_QUIET_MS) return;
    this.#reported.set(`${service}/${id}`, now);
    this.#leader()
      ?.reportPeer({ service, id, instance: member.instance, reporter: identity.id, reason }, { timeoutMs: timers.controlCallTimeoutMs })
      .catch((error: unknown) => logger.debug("peer report not delivered", { peer: id, code: codeOf(error) }));
  }

  /** Partitions that the controller has still assigned here; undefined when it does not answer. */
  async drain(): Promise<number | undefined> {
    const { timers, identity } = this.#options;
    try {
      const reply = await this.#leader()?.drain(
        { service: "broker", id: identity.id, instance: identity.instance },
        { timeoutMs: timers.controlCallTimeoutMs },
      );
      return reply?.remaining;
    } catch {
      return undefined;
    }
  }

  #beat(): void {
    if (this.#stopped) return;
    const { clock, timers, identity, load, onSuspects } = this.#options;
    const { appendBytesPerSecond, openPartitions } = load();
    const leader = this.#leader();
    void leader
      ?.heartbeat(
        {
          service: "broker",
          id: identity.id,
          instance: identity.instance,
          appendBytesPerSecond: BigInt(Math.round(appendBytesPerSecond)),
          openPartitions,
        },
        { timeoutMs: timers.controlCallTimeoutMs },
      )
      .then((reply) => onSuspects(new Set(reply.suspects)))
      .catch(() => undefined);
    this.#timer = clock.setTimer(timers.heartbeatIntervalMs, () => this.#beat(), { unref: true });
  }

  #leader(): RpcClient<typeof ControllerService> | undefined {
    const { view, clock } = this.#options;
    const leader = view.leader;
    const address = leader === undefined ? undefined : view.member("controller", leader.member)?.endpoints.rpc;
    if (address !== this.#address) {
      this.#client?.close();
      this.#client = address === undefined ? undefined : createRpcClient(ControllerService, address, { clock });
      this.#address = address;
    }
    return this.#client;
  }
}

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
/**
 * A peer is not reported again for this long, ms: doubled from the first to the largest for as long as the same is seen of the same instance. The controller
 * looks at the first report; what goes on and on (a node that refuses) is told seldom.
 */
const REPORT_QUIET_FIRST_MS = 200;
const REPORT_QUIET_LARGEST_MS = 10_000;
interface Reported {
  readonly what: string;
  readonly atMs: number;
  readonly quietMs: number;
}

/** Heartbeats to the leading controller, reports of peers that died, and the request to be relieved of all partitions. */
export class ControllerLink {
  readonly #options: ControllerLinkOptions;
  readonly #reported = new Map<string, Reported>();
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
    const { view, timers, identity, logger } = this.#options;
    const member = view.member(service, id);
    if (member === undefined || !this.#isDue(`${service}/${id}`, `${member.instance} ${reason}`)) return;
    this.#leader()
      ?.reportPeer({ service, id, instance: member.instance, reporter: identity.id, reason }, { timeoutMs: timers.controlCallTimeoutMs })
      .catch((error: unknown) => logger.debug("peer report not delivered", { peer: id, code: codeOf(error) }));
  }

  #isDue(peer: string, what: string): boolean {
    const now = this.#options.clock.monotonicMs();
    const before = this.#reported.get(peer);
    const sinceMs = before === undefined ? Infinity : now - before.atMs;
    if (before !== undefined && sinceMs < (before.what === what ? before.quietMs : REPORT_QUIET_FIRST_MS)) return false;
    // Nothing for twice the pause: that one was over, this is a new one.
    const goesOn = before?.what === what && sinceMs < 2 * before.quietMs;
    this.#reported.set(peer, {
      what,
      atMs: now,
      quietMs: goesOn ? Math.min(2 * before.quietMs, REPORT_QUIET_LARGEST_MS) : REPORT_QUIET_FIRST_MS,
    });
    return true;
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

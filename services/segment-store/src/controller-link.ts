import type { ClusterView } from "@sluice/catalog";
import type { Timers } from "@sluice/core/model";
import { ControllerService } from "@sluice/proto/internal/v1/controller";
import { createRpcClient, type RpcClient } from "@sluice/rpc";
import type { Clock, Timer } from "@sluice/runtime";
import type { ServiceIdentity } from "@sluice/service";

export interface ControllerLinkOptions {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly view: ClusterView;
  readonly identity: ServiceIdentity;
  readonly space: () => { readonly capacityBytes: number; readonly freeBytes: number };
  /** False: no heartbeat, so that the controller takes the node for suspect. */
  readonly healthy: () => boolean;
}

/** Heartbeats to the leading controller: alive, and how much space there is. Losing them costs speed alone. */
export class ControllerLink {
  readonly #options: ControllerLinkOptions;
  #client: RpcClient<typeof ControllerService> | undefined;
  #address: string | undefined;
  #timer: Timer | undefined;
  #stopped = false;
  #inFlight = false;

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
  #beat(): void {
    if (this.#stopped) return;
    const { clock, timers, identity, space, healthy } = this.#options;
    const leader = healthy() && !this.#inFlight ? this.#leader() : undefined;
    if (leader !== undefined) {
      const { capacityBytes, freeBytes } = space();
      this.#inFlight = true;
      leader
        .heartbeat(
          {
            service: "segment-store",
            id: identity.id,
            instance: identity.instance,
            capacityBytes: BigInt(capacityBytes),
            freeBytes: BigInt(freeBytes),
          },
          { timeoutMs: timers.controlCallTimeoutMs },
        )
        .catch(() => undefined)
        .finally(() => {
          this.#inFlight = false;
        });
    }
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

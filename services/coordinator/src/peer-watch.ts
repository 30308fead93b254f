import { connect } from "node:net";
import type { ClusterView } from "@sluice/catalog";
import { codeOf, type InstanceId } from "@sluice/core/model";
import { parseHostPort, Repeater, type Clock, type Logger } from "@sluice/runtime";
import type { ServiceIdentity } from "@sluice/service";

/** One connect: open, refused (the host answers, the process does not), or no answer in time. */
export type Probe = (address: string, timeoutMs: number) => Promise<"open" | "refused" | "timeout">;
export interface PeerWatchOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly view: ClusterView;
  readonly identity: ServiceIdentity;
  /** Between two looks at each other coordinator, ms. */
  readonly intervalMs: number;
  readonly timeoutMs: number;
  readonly probe?: Probe;
}

/**
 * Finds coordinators that died before their leases end: nobody listens at their address any more. Only speed hangs on it: a shard is taken
 * with a higher epoch, whoever is wrong. Who does not answer at all may be slow: that is left to the lease.
 */
export class PeerWatch {
  readonly #options: PeerWatchOptions;
  readonly #probe: Probe;
  readonly #dead = new Set<InstanceId>();
  readonly #listeners = new Set<() => void>();
  readonly #repeater: Repeater;

  constructor(options: PeerWatchOptions) {
    this.#options = options;
    const { clock, intervalMs, logger } = options;
    const onError = (error: unknown): void => logger.warn("other coordinators not looked at", { code: codeOf(error), err: error });
    this.#repeater = new Repeater({ clock, intervalMs, work: () => this.#look(), onError });
    this.#probe = options.probe ?? ((address, timeoutMs) => probeTcp(options.clock, address, timeoutMs));
  }
  /** Its address refuses connections. */
  isDead(instance: InstanceId): boolean {
    return this.#dead.has(instance);
  }
  onChange(fn: () => void): void {
    this.#listeners.add(fn);
  }
  start(): void {
    this.#repeater.start();
  }
  stop(): void {
    this.#repeater.stop();
  }

  async #look(): Promise<void> {
    const { view, identity, timeoutMs, logger } = this.#options;
    const others = view.membersOf("coordinator").filter((m) => m.id !== identity.id);
    const there = new Set(others.map((m) => m.instance));
    for (const instance of this.#dead) if (!there.has(instance)) this.#dead.delete(instance);
    const found = await Promise.all(
      others.map(async ({ id, instance, endpoints }) => {
        const result = endpoints.rpc === undefined ? "open" : await this.#probe(endpoints.rpc, timeoutMs);
        if (result === "timeout" || (result === "refused") === this.#dead.has(instance)) return false;
        if (result === "refused") this.#dead.add(instance);
        else this.#dead.delete(instance);
        logger.info(result === "refused" ? "coordinator gone" : "coordinator back", { member: id, instance });
        return true;
      }),
    );
    if (found.includes(true) && !this.#repeater.stopped) for (const fn of this.#listeners) fn();
  }
}

const REFUSED: ReadonlySet<string> = new Set(["ECONNREFUSED", "ECONNRESET"]);
function probeTcp(clock: Clock, address: string, timeoutMs: number): ReturnType<Probe> {
  const { host, port } = parseHostPort(address);
  return new Promise((resolve) => {
    const socket = connect({ host, port });
    const done = (result: "open" | "refused" | "timeout"): void => {
      timer.cancel();
      socket.destroy();
      resolve(result);
    };
    const timer = clock.setTimer(timeoutMs, () => done("timeout"), { unref: true });
    socket.on("connect", () => done("open"));
    socket.on("error", (error) => done(REFUSED.has((error as NodeJS.ErrnoException).code ?? "") ? "refused" : "timeout"));
  });
}

import { asSluiceError, isSluiceError, SluiceError } from "@sluice/core/model";
import { AdminService } from "@sluice/proto/v1/admin";
import { ConsumeService } from "@sluice/proto/v1/consume";
import { GroupService } from "@sluice/proto/v1/group";
import { ProduceService } from "@sluice/proto/v1/produce";
import { createRpcChannel, createRpcClient, type RpcChannel, type RpcClient } from "@sluice/rpc/client";
import type { Clock, Random } from "@sluice/runtime";
import { Backoff } from "./backoff.ts";
import { consumeCodecs, produceCodecs } from "./messages.ts";
import { openFirst } from "./opening.ts";
import { clientTimers } from "./timing.ts";
import type { ClientEvent } from "./sluice-types.ts";
import type { ClientTracing } from "./tracing.ts";

/** An open connection to one proxy. */
export interface ProxyLink {
  readonly address: string;
  readonly channel: RpcChannel;
  readonly produce: RpcClient<typeof ProduceService, typeof produceCodecs>;
  readonly consume: RpcClient<typeof ConsumeService, typeof consumeCodecs>;
  readonly admin: RpcClient<typeof AdminService>;
  readonly groups: RpcClient<typeof GroupService>;
}
export interface ConnectionOptions {
  readonly endpoints: readonly string[];
  readonly clientId: string | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly onEvent: (event: ClientEvent) => void;
  readonly tracing?: ClientTracing | undefined;
}

/** Errors of a proxy that is going away or gone: another one may do better. */
const LEAVE = new Set(["UNREACHABLE", "OUTCOME_UNKNOWN", "SHUTTING_DOWN", "NOT_READY"]);

/**
 * The one connection of a client, to one of its endpoints:
 *
 *   link() ── open? ── yes ──► the current link
 *                └──── no ───► each endpoint in turn, those that failed lately last; UNREACHABLE when none answers
 *   failed(link) ──► the next link() looks elsewhere first; calls still open on the old one may finish
 */
export class Connection {
  readonly clock: Clock;
  readonly random: Random;
  /** Producers and consumers find the application's tracer here. */
  readonly tracing: ClientTracing | undefined;
  readonly #options: ConnectionOptions;
  readonly #restUntilMs = new Map<string, number>();
  readonly #retired = new Set<ProxyLink>();
  #next: number;
  #current: ProxyLink | undefined;
  #opening: Promise<ProxyLink> | undefined;
  #closed: SluiceError | undefined;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.clock = options.clock;
    this.random = options.random;
    this.tracing = options.tracing;
    this.#next = options.random.int(options.endpoints.length);
  }
  get endpoint(): string {
    return this.#current?.address ?? (this.#options.endpoints[this.#next] as string);
  }
  get closed(): SluiceError | undefined {
    return this.#closed;
  }
  /** The link in use, opened when there is none. UNREACHABLE when no endpoint accepts, SHUTTING_DOWN or CANCELLED after the close. */
  link(): ProxyLink | Promise<ProxyLink> {
    if (this.#closed !== undefined) throw this.#closed;
    if (this.#current !== undefined) return this.#current;
    this.#opening ??= this.#open().finally(() => (this.#opening = undefined));
    return this.#opening;
  }
  /** Says that `link` broke or is going away. */
  failed(link: ProxyLink, error: SluiceError): void {
    if (this.#current !== link) return;
    this.#current = undefined;
    this.#restUntilMs.set(link.address, this.clock.monotonicMs() + clientTimers.endpointRestMs);
    this.#retire(link);
    this.#options.onEvent({ type: "connection_lost", endpoint: link.address, error });
  }
  /** Retries `call` on whatever proxy serves, until it succeeds, fails for good, or the time is over. */
  async call<T>(
    call: (link: ProxyLink, timeoutMs: number, signal: AbortSignal | undefined) => Promise<T>,
    options: { readonly timeoutMs: number; readonly signal: AbortSignal | undefined; readonly repeatable: boolean },
  ): Promise<T> {
    const endsAtMs = this.clock.monotonicMs() + options.timeoutMs;
    const backoff = new Backoff(this.random);
    let earlier: SluiceError | undefined;
    for (;;) {
      if (options.signal?.aborted === true) throw cancelled(options.signal);
      let link: ProxyLink | undefined;
      try {
        link = await this.link();
        const leftMs = endsAtMs - this.clock.monotonicMs();
        if (leftMs <= 0) throw new SluiceError("TIMED_OUT", `no answer within ${options.timeoutMs} ms`);
        return await call(link, leftMs, options.signal);
      } catch (thrown) {
        const error = asSluiceError(thrown);
        if (link !== undefined && leavesProxy(error)) this.failed(link, error);
        const again = options.repeatable ? error.retriable : error.retriable && !outcomeUnknown(error);
        const waitMs = Math.max(error.throttleMs, backoff.nextMs());
        if (!again || this.#closed !== undefined || this.clock.monotonicMs() + waitMs >= endsAtMs)
          throw this.#closed ?? lateAfter(error, earlier, options.timeoutMs);
        earlier = error;
        await this.sleep(waitMs, options.signal);
      }
    }
  }
  async sleep(delayMs: number, signal: AbortSignal | undefined): Promise<void> {
    try {
      await this.clock.sleep(delayMs, signal);
    } catch (cause) {
      throw signal === undefined ? cause : cancelled(signal);
    }
  }
  /** Open calls end; later ones fail with `reason`. */
  close(reason: SluiceError): void {
    this.#closed ??= reason;
    for (const link of this.#retired) link.channel.close();
    this.#retired.clear();
    this.#current?.channel.close();
    this.#current = undefined;
  }

  async #open(): Promise<ProxyLink> {
    let last: SluiceError | undefined;
    const opened = await openFirst({
      addresses: this.#order(),
      channelTo: (address) => this.#channel(address),
      clock: this.clock,
      isOver: () => this.#closed !== undefined,
      onFailed: (address, why) => {
        last = new SluiceError("UNREACHABLE", `${address}: ${why}`);
        this.#restUntilMs.set(address, this.clock.monotonicMs() + clientTimers.endpointRestMs);
      },
    });
    if (this.#closed !== undefined) {
      opened?.channel.close();
      throw this.#closed;
    }
    if (opened === undefined) throw last ?? new SluiceError("UNREACHABLE", "no endpoint");
    this.#next = this.#options.endpoints.indexOf(opened.address);
    const link = openLink(opened.address, opened.channel);
    this.#current = link;
    this.#options.onEvent({ type: "connected", endpoint: opened.address });
    return link;
  }
  #order(): string[] {
    const { endpoints } = this.#options;
    const now = this.clock.monotonicMs();
    const turned = endpoints.map((_, i) => endpoints[(this.#next + i) % endpoints.length] as string);
    const rests = (address: string): number => Math.max(0, (this.#restUntilMs.get(address) ?? 0) - now);
    return turned.toSorted((a, b) => rests(a) - rests(b));
  }
  #channel(address: string): RpcChannel {
    const { clientId } = this.#options;
    return createRpcChannel(address, {
      limits: {
        keepaliveMs: clientTimers.keepaliveMs,
        keepaliveTimeoutMs: clientTimers.keepaliveTimeoutMs,
      },
      ...(clientId === undefined ? {} : { clientId }),
    });
  }
  /** A proxy that drains still answers what it has: its channel is closed a while later. */
  #retire(link: ProxyLink): void {
    this.#retired.add(link);
    const close = (): void => {
      link.channel.close();
      this.#retired.delete(link);
    };
    if (!link.channel.connected) close();
    else this.clock.setTimer(clientTimers.requestTimeoutMs, close, { unref: true });
  }
}

/** The last attempt may have had no time for more than to be late: what the one before it was told is the reason. */
function lateAfter(error: SluiceError, earlier: SluiceError | undefined, timeoutMs: number): SluiceError {
  if (error.code !== "TIMED_OUT" || earlier === undefined || earlier.code === "TIMED_OUT") return error;
  return new SluiceError("TIMED_OUT", `no answer within ${timeoutMs / 1_000} s; before that ${earlier.code}: ${earlier.message}`, {
    cause: earlier,
    throttleMs: error.throttleMs,
  });
}
export const leavesProxy = (error: SluiceError): boolean => LEAVE.has(error.code);
export const outcomeUnknown = (error: SluiceError): boolean => error.code === "OUTCOME_UNKNOWN" || error.code === "TIMED_OUT";
export function cancelled(signal: AbortSignal): SluiceError {
  const reason: unknown = signal.reason;
  return isSluiceError(reason) ? reason : new SluiceError("CANCELLED", "given up by the caller", { cause: reason });
}

function openLink(address: string, channel: RpcChannel): ProxyLink {
  return {
    address,
    channel,
    produce: createRpcClient(ProduceService, channel, { codecs: produceCodecs }),
    consume: createRpcClient(ConsumeService, channel, { codecs: consumeCodecs }),
    admin: createRpcClient(AdminService, channel),
    groups: createRpcClient(GroupService, channel),
  };
}

import { connectivityState } from "@grpc/grpc-js";
import { asSluiceError } from "@sluice/core/model";
import { AdminService } from "@sluice/proto/v1/admin";
import { createRpcClient, type RpcChannel } from "@sluice/rpc/client";
import type { Clock, Timer } from "@sluice/runtime";
import { clientLimits, clientTimers } from "./timing.ts";

export interface Opened {
  readonly address: string;
  readonly channel: RpcChannel;
}
export interface OpeningOptions {
  /** In the order in which they are to be tried, at least one. */
  readonly addresses: readonly string[];
  readonly channelTo: (address: string) => RpcChannel;
  readonly clock: Clock;
  /** Nobody wants the connection any more: no other is begun. */
  readonly isOver: () => boolean;
  /** An address did not accept the connection in time. */
  readonly onFailed: (address: string, why: string) => void;
}

/**
 * The first channel that connects; undefined when none does. The next address is tried as soon as one refuses, or has not accepted for
 * `endpointHedgeMs`, while the earlier ones may still win:
 *
 *   a ──────────────────✕ (700 ms)
 *        b ────✓                        the address of a balancer is tried more than once: behind it may be somebody else each time, and a
 *             (c)                       machine that has lost power answers nothing at all
 */
export function openFirst(options: OpeningOptions): Promise<Opened | undefined> {
  const { addresses, channelTo, clock, onFailed } = options;
  const plan = Array.from(
    { length: Math.max(addresses.length, clientLimits.openingsMax) },
    (_, i) => addresses[i % addresses.length] as string,
  );
  return new Promise((resolve) => {
    const open = new Set<RpcChannel>();
    const failed = new Set<string>();
    let at = 0;
    let isOver = false;
    let timer: Timer | undefined;
    const finish = (opened: Opened | undefined): void => {
      isOver = true;
      timer?.cancel();
      for (const channel of open) if (channel !== opened?.channel) channel.close();
      resolve(opened);
    };
    const attempt = async (address: string): Promise<void> => {
      const channel = channelTo(address);
      open.add(channel);
      const ready = await becomesReady(channel, clientTimers.endpointConnectMs);
      if (isOver) return;
      if (ready) return finish({ address, channel });
      failed.add(address);
      next();
      const why = await reasonOf(channel);
      if (isOver) return;
      open.delete(channel);
      channel.close();
      onFailed(address, why);
      if (open.size === 0) finish(undefined);
    };
    const next = (): void => {
      timer?.cancel();
      if (options.isOver()) return finish(undefined);
      // One that has failed will not do better a moment later: the caller waits before it comes back.
      while (at < plan.length && failed.has(plan[at] as string)) at += 1;
      const address = plan[at];
      if (address === undefined) return;
      at += 1;
      timer = clock.setTimer(clientTimers.endpointHedgeMs, next);
      void attempt(address);
    };
    next();
  });
}

/** Why a channel did not connect: only a call is told by grpc-js, and a refused channel ends one at once. */
async function reasonOf(channel: RpcChannel): Promise<string> {
  if (channel.raw.getConnectivityState(false) !== connectivityState.TRANSIENT_FAILURE) return "no connection in time";
  try {
    await createRpcClient(AdminService, channel).describeCluster({}, { timeoutMs: REASON_MS });
    return "the connection came too late";
  } catch (error) {
    const { code, message } = asSluiceError(error);
    if (code === "UNREACHABLE" && !message.startsWith("No connection")) return message;
    // The details of grpc-js name the error of the socket, and end in notes for its developers.
    const socketError = /Last error: Error: .*?\b(E[A-Z]{3,})\b/.exec(message)?.[1];
    return socketError === undefined || socketError === "ECONNRESET"
      ? "the peer accepts connections but does not speak gRPC"
      : `does not accept connections (${socketError})`;
  }
}
const REASON_MS = 250;

/** True once connected; false as soon as the address refuses, or after the time. */
async function becomesReady(channel: RpcChannel, timeoutMs: number): Promise<boolean> {
  const endsAtMs = channel.clock.wallMs() + timeoutMs;
  for (;;) {
    const state = channel.raw.getConnectivityState(true);
    if (state === connectivityState.READY) return true;
    if (state === connectivityState.TRANSIENT_FAILURE || state === connectivityState.SHUTDOWN) return false;
    const changed = await new Promise<boolean>((resolve) => {
      channel.raw.watchConnectivityState(state, endsAtMs, (error) => resolve(error === undefined));
    });
    if (!changed) return false;
  }
}

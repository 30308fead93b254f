import { Channel, type ChannelOptions, connectivityState, type ChannelCredentials, credentials } from "@grpc/grpc-js";
import { limits, SluiceError } from "@sluice/core/model";
import { type Clock, systemClock } from "@sluice/runtime/clock";

/** Defaults of every client channel. */
export const rpcChannelLimits = {
  receiveBytesMax: limits.grpcReceiveBytesMax,
  sendBytesMax: limits.linkFrameBytesMax,
  windowBytes: 8 * 1024 * 1024,
  keepaliveMs: 10_000,
  keepaliveTimeoutMs: 5_000,
  /** grpc-js waits a second by default before it tries again: longer than a whole takeover may last here. */
  reconnectMinMs: 50,
  reconnectMaxMs: 1_000,
} as const;
export type RpcChannelLimits = { readonly [K in keyof typeof rpcChannelLimits]: number };

export interface RpcChannelOptions {
  readonly limits?: Partial<RpcChannelLimits>;
  readonly clock?: Clock;
  readonly credentials?: ChannelCredentials;
  /** Sent with every call as `sluice-client-id`. */
  readonly clientId?: string;
  /** Calls on a channel that cannot connect wait until their deadline instead of failing with UNREACHABLE. Default false. */
  readonly waitForReady?: boolean;
}
/** One HTTP/2 connection (re-made when it breaks) to one address, shared by any number of clients. */
export interface RpcChannel {
  readonly address: string;
  readonly options: RpcChannelOptions;
  readonly clock: Clock;
  /** grpc-js's own. */
  readonly raw: Channel;
  readonly connected: boolean;
  readonly closed: boolean;
  /** Connects now and resolves when ready; rejects with UNREACHABLE after `timeoutMs`. */
  waitReady(timeoutMs: number): Promise<void>;
  /** Idempotent. Open calls are ended by grpc-js. */
  close(): void;
}

export function createRpcChannel(address: string, options: RpcChannelOptions = {}): RpcChannel {
  const l = { ...rpcChannelLimits, ...options.limits };
  const clock = options.clock ?? systemClock;
  const channelOptions: ChannelOptions = {
    "grpc.max_receive_message_length": l.receiveBytesMax,
    "grpc.max_send_message_length": l.sendBytesMax,
    "grpc-node.flow_control_window": l.windowBytes,
    "grpc.keepalive_time_ms": l.keepaliveMs,
    "grpc.keepalive_timeout_ms": l.keepaliveTimeoutMs,
    "grpc.initial_reconnect_backoff_ms": l.reconnectMinMs,
    "grpc.max_reconnect_backoff_ms": l.reconnectMaxMs,
    // Retries are decided by the callers, who know what is safe to send twice.
    "grpc.enable_retries": 0,
    // An address means this address, whatever proxy the environment names or the resolver advises.
    "grpc.enable_http_proxy": 0,
    "grpc.service_config_disable_resolution": 1,
    // A connection of its own, so that closing a channel closes it.
    "grpc.use_local_subchannel_pool": 1,
    "grpc.enable_channelz": 0,
  };
  const raw = new Channel(address, options.credentials ?? credentials.createInsecure(), channelOptions);
  let closed = false;
  return {
    address,
    options,
    clock,
    raw,
    get connected() {
      return !closed && raw.getConnectivityState(false) === connectivityState.READY;
    },
    get closed() {
      return closed;
    },
    async waitReady(timeoutMs) {
      const endsAtMs = clock.wallMs() + timeoutMs;
      for (let state = raw.getConnectivityState(true); state !== connectivityState.READY; state = raw.getConnectivityState(true)) {
        await new Promise<void>((resolve, reject) => {
          raw.watchConnectivityState(state, endsAtMs, (cause) => {
            if (cause === undefined) resolve();
            else reject(new SluiceError("UNREACHABLE", `${address}: no connection within ${timeoutMs} ms`, { cause }));
          });
        });
      }
    },
    close() {
      if (closed) return;
      closed = true;
      raw.close();
    },
  };
}

/** Channels by address, made when first asked for. Used by programs that talk to many peers. */
export class ChannelPool {
  readonly #options: RpcChannelOptions;
  readonly #channelsMax: number;
  readonly #channels = new Map<string, RpcChannel>();
  #closed = false;
  constructor(options: RpcChannelOptions = {}, channelsMax = 1_024) {
    this.#options = options;
    this.#channelsMax = channelsMax;
  }
  get(address: string): RpcChannel {
    if (this.#closed) throw new SluiceError("SHUTTING_DOWN", "the channels are closed");
    let channel = this.#channels.get(address);
    if (channel === undefined) {
      if (this.#channels.size >= this.#channelsMax) throw new SluiceError("OVERLOADED", `more than ${this.#channelsMax} channels`);
      channel = createRpcChannel(address, this.#options);
      this.#channels.set(address, channel);
    }
    return channel;
  }
  /** When a peer is gone for good. */
  forget(address: string): void {
    this.#channels.get(address)?.close();
    this.#channels.delete(address);
  }
  close(): void {
    this.#closed = true;
    for (const channel of this.#channels.values()) channel.close();
    this.#channels.clear();
  }
}

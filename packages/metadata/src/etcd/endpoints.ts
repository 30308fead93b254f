import { readFileSync } from "node:fs";
import { Channel, connectivityState, credentials, type ChannelCredentials, type ChannelOptions, type Client } from "@grpc/grpc-js";
import { SluiceError } from "@sluice/core/model";
import type { Logger } from "@sluice/runtime";
import { jittered, type Clock, type Random } from "./retry.ts";
import { serviceConstructor, type ServiceName } from "./protocol.ts";

/** Files in PEM. With `ca` alone the server is checked; with `cert` and `key` this side proves itself as well. */
export interface EtcdTls {
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
}

const MiB = 1024 * 1024;
/** One answer of etcd; listings come in pages and watch answers in fragments well below it. */
export const RECEIVE_BYTES_MAX = 32 * MiB;
/** How long one endpoint may take to connect before the next is tried. */
const CONNECT_SLICE_MS = 1_000;
/** Pause between endpoints that refuse at once. */
const REFUSED_PAUSE_MS = 50;
/** While no member can be reached, that is logged after the first time, and again so often. */
const AWAY_AFTER_MS = 1_000;
const AWAY_AGAIN_MS = 30_000;

const channelOptions: ChannelOptions = {
  "grpc.max_receive_message_length": RECEIVE_BYTES_MAX,
  // etcd closes connections that ping more often than every 5 s.
  "grpc.keepalive_time_ms": 5_500,
  "grpc.keepalive_timeout_ms": 2_500,
  "grpc.keepalive_permit_without_calls": 0,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 1_000,
  // A write goes out once: whatever failed on the way is the caller's to settle.
  "grpc.enable_retries": 0,
  "grpc.service_config_disable_resolution": 1,
  "grpc.use_local_subchannel_pool": 1,
  "grpc.enable_channelz": 0,
  "grpc.enable_http_proxy": 0,
};

/** One etcd member: a channel, and the clients on it. */
export class Endpoint {
  readonly address: string;
  readonly #channel: Channel;
  readonly #clients = new Map<ServiceName, Client>();
  readonly #waiting = new Set<() => void>();
  #watching = false;

  constructor(address: string, channelCredentials: ChannelCredentials) {
    this.address = address;
    this.#channel = new Channel(address, channelCredentials, channelOptions);
  }

  client(name: ServiceName): Client {
    let client = this.#clients.get(name);
    if (client === undefined) {
      const Service = serviceConstructor(name);
      client = new Service(this.address, credentials.createInsecure(), { channelOverride: this.#channel });
      this.#clients.set(name, client);
    }
    return client;
  }

  /** "ready", or "refused" when a connection was tried and failed; asks an idle channel to connect. */
  state(): "ready" | "connecting" | "refused" | "closed" {
    const state = this.#channel.getConnectivityState(true);
    if (state === connectivityState.READY) return "ready";
    if (state === connectivityState.TRANSIENT_FAILURE) return "refused";
    return state === connectivityState.SHUTDOWN ? "closed" : "connecting";
  }

  /** Calls `fn` at the next change of state; the returned function takes it back. One watch of the channel serves all who wait. */
  onChange(fn: () => void): () => void {
    this.#waiting.add(fn);
    this.#watch();
    return () => void this.#waiting.delete(fn);
  }

  #watch(): void {
    if (this.#watching) return;
    const state = this.#channel.getConnectivityState(true);
    if (state === connectivityState.SHUTDOWN) return this.#wake();
    this.#watching = true;
    this.#channel.watchConnectivityState(state, Infinity, () => {
      this.#watching = false;
      this.#wake();
    });
  }
  #wake(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const fn of waiting) fn();
  }

  close(): void {
    this.#channel.close();
    this.#wake();
  }
}

/** The members of an etcd cluster. One is current and serves all calls until a call on it fails; then the next is. */
export class Endpoints {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #all: readonly Endpoint[];
  readonly #logger: Logger;
  #current: number;
  /** Since when nothing has answered; undefined = not waiting. */
  #awaySinceMs: number | undefined;
  #toldMs = Number.NEGATIVE_INFINITY;

  /** Each "http://host:port", "https://host:port" or "host:port" (TLS when `tls` is given). */
  constructor(urls: readonly string[], tls: EtcdTls | undefined, clock: Clock, random: Random, logger: Logger) {
    if (urls.length === 0) throw new SluiceError("INVALID_CONFIG", "etcd needs at least one endpoint");
    this.#clock = clock;
    this.#random = random;
    this.#logger = logger;
    this.#all = urls.map((url) => new Endpoint(url.replace(/^https?:\/\//, "").replace(/\/$/, ""), credentialsFor(url, tls)));
    // Spread the processes over the members.
    this.#current = random.int(urls.length);
  }

  get count(): number {
    return this.#all.length;
  }

  current(): Endpoint {
    return this.#all[this.#current] as Endpoint;
  }

  /** A call on this endpoint failed or timed out; the next one becomes current, unless that has happened already. */
  failed(endpoint: Endpoint): void {
    if (endpoint === this.current()) this.#current = (this.#current + 1) % this.#all.length;
  }

  /** A connected endpoint, or undefined when none could be had until `untilMs` (monotonic), or `signal` aborted: nothing was sent. */
  async ready(untilMs: number, signal: AbortSignal): Promise<Endpoint | undefined> {
    let refused = 0;
    while (!signal.aborted) {
      const endpoint = this.current();
      const state = endpoint.state();
      if (state === "ready") {
        if (this.#awaySinceMs !== undefined) this.#back(endpoint);
        return endpoint;
      }
      const now = this.#clock.monotonicMs();
      this.#away(now);
      if (state === "closed" || now >= untilMs) return undefined;
      if (state === "refused" && this.count > 1) {
        this.failed(endpoint);
        // All were asked once at full speed; from then on with pauses, woken by the first that connects.
        if (++refused % this.count !== 0) continue;
        await this.#changeWithin(this.#all, Math.min(untilMs - now, jittered(REFUSED_PAUSE_MS, this.#random)), signal);
        continue;
      }
      const changed = await this.#changeWithin([endpoint], Math.min(untilMs - now, CONNECT_SLICE_MS), signal);
      if (!changed) this.failed(endpoint);
    }
    return undefined;
  }

  #away(nowMs: number): void {
    const sinceMs = (this.#awaySinceMs ??= nowMs);
    if (nowMs - sinceMs < AWAY_AFTER_MS || nowMs - this.#toldMs < AWAY_AGAIN_MS) return;
    this.#toldMs = nowMs;
    const endpoints = this.#all.map((one) => one.address).join(",");
    this.#logger.warn("waiting for etcd", { endpoints, forSeconds: Math.round((nowMs - sinceMs) / 1_000) });
  }
  #back(endpoint: Endpoint): void {
    const sinceMs = this.#awaySinceMs as number;
    this.#awaySinceMs = undefined;
    if (this.#toldMs < sinceMs) return;
    this.#toldMs = Number.NEGATIVE_INFINITY;
    this.#logger.info("etcd answers", {
      endpoint: endpoint.address,
      afterSeconds: Math.round((this.#clock.monotonicMs() - sinceMs) / 1_000),
    });
  }

  #changeWithin(endpoints: readonly Endpoint[], ms: number, signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const done = (changed: boolean): void => {
        timer.cancel();
        signal.removeEventListener("abort", onAbort);
        for (const unsubscribe of unsubscribes) unsubscribe();
        resolve(changed);
      };
      const onAbort = (): void => done(true);
      const timer = this.#clock.setTimer(ms, () => done(false));
      signal.addEventListener("abort", onAbort, { once: true });
      const unsubscribes = endpoints.map((endpoint) => endpoint.onChange(() => done(true)));
    });
  }

  close(): void {
    for (const endpoint of this.#all) endpoint.close();
  }
}

function credentialsFor(url: string, tls: EtcdTls | undefined): ChannelCredentials {
  if (url.startsWith("http://") || (tls === undefined && !url.startsWith("https://"))) return credentials.createInsecure();
  const read = (file: string | undefined): Buffer | null => (file === undefined ? null : readFileSync(file));
  return credentials.createSsl(read(tls?.caFile), read(tls?.keyFile), read(tls?.certFile));
}

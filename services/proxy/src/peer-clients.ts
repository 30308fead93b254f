import type { DescService } from "@bufbuild/protobuf";
import { createRpcClient, type ChannelPool, type RpcClient } from "@sluice/rpc";

/** Clients of one service by address, over the shared channels. A channel that was forgotten is made anew when its address comes back. */
export class PeerClients<S extends DescService> {
  readonly #service: S;
  readonly #channels: ChannelPool;
  readonly #clients = new Map<string, RpcClient<S>>();

  constructor(service: S, channels: ChannelPool) {
    this.#service = service;
    this.#channels = channels;
  }
  get(address: string): RpcClient<S> {
    const known = this.#clients.get(address);
    if (known !== undefined && !known.channel.closed) return known;
    for (const [other, client] of this.#clients) if (client.channel.closed) this.#clients.delete(other);
    const client = createRpcClient(this.#service, this.#channels.get(address)) as RpcClient<S>;
    this.#clients.set(address, client);
    return client;
  }
}

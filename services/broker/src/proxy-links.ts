import { errorNumber, partitionKey, topicId } from "@sluice/core/model";
import {
  FrameType,
  frameTypeName,
  listenLinks,
  subscribeCodec,
  tailCodec,
  type Frame,
  type Link,
  type LinkContext,
  type LinkServer,
  type SubscribeMessage,
} from "@sluice/link";
import type { Ownership } from "./ownership.ts";
import type { PartitionHost } from "./partition-host.ts";
import type { ProducePath } from "./produce-path.ts";

const EMPTY = new Uint8Array(0);

/** What a proxy's link carries here: produce frames and subscriptions to tails. */
interface ProxyState {
  /** Subscription number to the partition it follows. */
  readonly subscriptions: Map<number, PartitionHost>;
}
/** Subscriptions of one proxy; a proxy follows a partition once, however many consumers it has. */
const SUBSCRIPTIONS_PER_LINK_MAX = 100_000;

export interface ProxyLinksOptions {
  readonly context: LinkContext;
  /** Address to bind. */
  readonly address: string;
  readonly ownership: Ownership;
  readonly producePath: ProducePath;
}

/** The broker's side of the data link to proxies and coordinators. */
export class ProxyLinks {
  readonly #options: ProxyLinksOptions;
  readonly #subscribe: SubscribeMessage = subscribeCodec.create();
  #server: LinkServer | undefined;

  constructor(options: ProxyLinksOptions) {
    this.#options = options;
  }
  /** Address with the real port, once started. */
  get address(): string {
    return this.#server?.address ?? this.#options.address;
  }
  get subscriptions(): number {
    let sum = 0;
    for (const link of this.#server?.links ?? []) sum += stateOf(link).subscriptions.size;
    return sum;
  }

  async start(): Promise<void> {
    this.#server = await listenLinks(this.#options.context, {
      address: this.#options.address,
      purposes: ["log"],
      handlers: {
        onFrame: (link, frame) => this.#onFrame(link, frame),
        onWritable: (link) => {
          for (const host of stateOf(link).subscriptions.values()) host.subscriptions.resume(link, host.mark);
        },
        onClose: (link) => {
          for (const host of stateOf(link).subscriptions.values()) host.subscriptions.removeLink(link);
          stateOf(link).subscriptions.clear();
        },
      },
    });
  }
  async stop(): Promise<void> {
    await this.#server?.close();
  }

  #onFrame(link: Link, frame: Frame): void {
    switch (frame.type) {
      case FrameType.produce:
        this.#options.producePath.take(link, frame);
        return;
      case FrameType.subscribe:
        this.#subscribeTo(link, frame);
        link.release(frame.creditBytes);
        return;
      case FrameType.unsubscribe: {
        const { subscriptions } = stateOf(link);
        subscriptions.get(frame.correlation)?.subscriptions.remove(link, frame.correlation);
        subscriptions.delete(frame.correlation);
        link.release(frame.creditBytes);
        return;
      }
      default:
        link.sendError(frame.correlation, frame.type, "UNKNOWN_FRAME", `a broker takes no ${frameTypeName(frame.type)} frame`);
        link.release(frame.creditBytes);
    }
  }

  #subscribeTo(link: Link, frame: Frame): void {
    const request = subscribeCodec.decode(frame, this.#subscribe);
    const number = frame.correlation;
    const { subscriptions } = stateOf(link);
    const host = this.#options.ownership.hostByKey(partitionKey({ topicId: topicId(request.topicId), partition: request.partition }));
    if (host === undefined || subscriptions.size >= SUBSCRIPTIONS_PER_LINK_MAX) {
      const end = tailCodec.create();
      end.code = errorNumber(host === undefined ? "NOT_OWNER" : "OVERLOADED");
      link.send(tailCodec, number, end, EMPTY);
      return;
    }
    subscriptions.set(number, host);
    host.subscriptions.add(link, number, host.mark);
  }
}

function stateOf(link: Link): ProxyState {
  link.state ??= { subscriptions: new Map() } satisfies ProxyState;
  return link.state as ProxyState;
}

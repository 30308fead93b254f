import type { ClusterView } from "@sluice/catalog";
import type { MemberId, PartitionId } from "@sluice/core/model";
import { ReconnectingLink, type Frame, type Link, type LinkCloseReason, type LinkContext } from "@sluice/link";

export interface BrokerLinkEvents {
  /** A frame that answers no request (tail frames). */
  onFrame(broker: MemberId, link: Link, frame: Frame): void;
  onUp(broker: MemberId, link: Link): void;
  /** At once when a link ends; kinds reset and refused mean that the broker is gone or going. */
  onDown(broker: MemberId, reason: LinkCloseReason): void;
  onWritable(broker: MemberId, link: Link): void;
}
interface Entry {
  readonly address: string;
  readonly instance: string;
  readonly link: ReconnectingLink;
}

/** One log link to each broker that is needed, by the brokers' member records. */
export class BrokerLinks {
  readonly #context: LinkContext;
  readonly #view: ClusterView;
  readonly #events: BrokerLinkEvents;
  readonly #links = new Map<MemberId, Entry>();
  readonly #unsubscribe: () => void;
  #closed = false;

  constructor(context: LinkContext, view: ClusterView, events: BrokerLinkEvents) {
    this.#context = context;
    this.#view = view;
    this.#events = events;
    this.#unsubscribe = view.onChange((changes) => {
      if (changes.some((change) => change.kind === "member" && change.service === "broker")) this.#prune();
    });
  }

  /** Who should be asked for a partition: its owner while it is open, else the broker that it is assigned to. */
  ownerOf(p: PartitionId): MemberId | undefined {
    const partition = this.#view.partition(p);
    const state = partition?.state?.record;
    const assigned = partition?.assigned?.record.broker;
    if (state?.phase === "OPEN" && this.#view.member("broker", state.owner)?.instance === state.ownerInstance) return state.owner;
    return assigned;
  }

  /** The link to a broker when it is up; begins to connect otherwise. */
  get(broker: MemberId): Link | undefined {
    if (this.#closed) return undefined;
    const member = this.#view.member("broker", broker);
    const address = member?.endpoints.link;
    let entry = this.#links.get(broker);
    if (member === undefined || address === undefined) return entry?.link.link;
    if (entry !== undefined && (entry.address !== address || entry.instance !== member.instance)) {
      entry.link.close();
      this.#links.delete(broker);
      entry = undefined;
    }
    if (entry === undefined) {
      const link = this.#open(broker, address);
      entry = { address, instance: member.instance, link };
      this.#links.set(broker, entry);
    }
    return entry.link.link;
  }
  /** Drops links to brokers that have left and whose link is down: an address without a member is not tried for ever. */
  #prune(): void {
    for (const [broker, { link }] of this.#links) {
      if (link.link !== undefined || this.#view.member("broker", broker) !== undefined) continue;
      this.#links.delete(broker);
      link.close();
    }
  }
  close(): void {
    this.#closed = true;
    this.#unsubscribe();
    for (const { link } of this.#links.values()) link.close();
    this.#links.clear();
  }

  #open(broker: MemberId, address: string): ReconnectingLink {
    const events = this.#events;
    return new ReconnectingLink(this.#context, {
      address,
      purpose: "log",
      expect: { service: "broker", memberId: broker },
      handlers: {
        onFrame: (link, frame) => events.onFrame(broker, link, frame),
        onWritable: (link) => events.onWritable(broker, link),
      },
      onState: (state) => {
        if (this.#closed) return;
        if (state.kind === "up") events.onUp(broker, state.link);
        else if (state.kind === "down") events.onDown(broker, state.reason);
      },
    });
  }
}

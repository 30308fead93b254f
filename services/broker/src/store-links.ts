import type { ClusterView } from "@sluice/catalog";
import { encodeAnnotations } from "@sluice/core/log";
import { codeOf, type MemberId, type MemberRecord, type ReplicaId } from "@sluice/core/model";
import type { ControlFailure, SendAppendEffect } from "@sluice/core/partition";
import {
  appendCodec,
  appendedCodec,
  EMPTY,
  FrameType,
  ReconnectingLink,
  type AppendedMessage,
  type AppendMessage,
  type Frame,
  type Link,
  type LinkContext,
  type LinkState,
  type Hold,
} from "@sluice/link";
import type { Logger } from "@sluice/runtime";
import type { PartitionHost } from "./partition-host.ts";

export interface StoreLinksOptions {
  readonly context: LinkContext;
  readonly logger: Logger;
  readonly view: ClusterView;
  /** A log link to a node came up, or went down and why. */
  readonly onLink: (node: MemberId, up: boolean, reason: ControlFailure | "none") => void;
}
interface Node {
  readonly address: string;
  readonly incarnation: string;
  readonly link: ReconnectingLink;
  /** The node's segment numbers to the partitions that write there. */
  readonly hosts: Map<number, PartitionHost>;
}

/**
 * One log link to every storage node that is a member: appends out, cumulative answers in. A link demands the node's incarnation, so a
 * node that was wiped and came back under its old name and address is another node here.
 */
export class StoreLinks {
  readonly #options: StoreLinksOptions;
  readonly #nodes = new Map<MemberId, Node>();
  readonly #append: AppendMessage = appendCodec.create();
  readonly #appended: AppendedMessage = appendedCodec.create();
  readonly #unsubscribe: () => void;
  #stampedMs = -1;
  #stamp: Uint8Array = EMPTY;

  constructor(options: StoreLinksOptions) {
    this.#options = options;
    this.#unsubscribe = options.view.onChange((changes) => {
      for (const change of changes) {
        if (change.kind === "member" && change.service === "segment-store") this.#member(change.id as MemberId, change.after);
      }
    });
  }
  start(): void {
    for (const member of this.#options.view.membersOf("segment-store")) this.#member(member.id, member);
  }
  stop(): void {
    this.#unsubscribe();
    for (const node of this.#nodes.values()) node.link.close();
    this.#nodes.clear();
  }

  /** gRPC address of a storage node at this incarnation, as far as the copy of the metadata knows. */
  controlAddress(replica: ReplicaId): string | undefined {
    const member = this.#options.view.member("segment-store", replica.node);
    return member?.incarnation === replica.incarnation ? member.endpoints.rpc : undefined;
  }

  /** One frame to each target whose link is up. A link that cannot queue it is closed: the machine then rolls away from that node. */
  send(host: PartitionHost, effect: SendAppendEffect): void {
    const m = this.#append;
    m.epoch = effect.epoch;
    m.base = effect.base;
    m.firstOffset = effect.firstOffset;
    m.lastOffset = effect.lastOffset;
    m.lac = effect.lac;
    m.barrier = effect.barrier;
    if (effect.trace !== undefined) m.annotations = encodeAnnotations({ appendTimeMs: effect.appendMs, traceParent: effect.trace });
    else m.annotations = effect.payload.length === 0 ? EMPTY : this.#appendTime(effect.appendMs);
    const hold = effect.handle as Hold | undefined;
    for (const target of effect.targets) {
      const node = this.#nodes.get(target.replica.node);
      const link = node?.link.link;
      if (node === undefined || link === undefined || node.incarnation !== target.replica.incarnation) {
        // The machine may not know: the link ended before it took this member.
        host.input({ kind: "link", node: target.replica.node, up: false, reason: "reset" });
        continue;
      }
      if (node.hosts.get(target.segmentNumber) !== host) node.hosts.set(target.segmentNumber, host);
      m.segmentNumber = target.segmentNumber;
      if (!link.send(appendCodec, 0, m, effect.payload, 0, hold)) link.close("OVERLOADED", "the node does not keep up with its appends");
    }
  }
  /** The broker's append time travels with the batch, so that all copies tell the same. One encoding for all frames of a millisecond. */
  #appendTime(ms: number): Uint8Array {
    if (ms !== this.#stampedMs) {
      this.#stampedMs = ms;
      this.#stamp = encodeAnnotations({ appendTimeMs: ms });
    }
    return this.#stamp;
  }
  /** The partition has moved on: answers for this node's segment are of no interest any more. */
  forget(host: PartitionHost): void {
    for (const node of this.#nodes.values()) {
      for (const [number, owner] of node.hosts) if (owner === host) node.hosts.delete(number);
    }
  }

  #member(id: MemberId, member: MemberRecord | undefined): void {
    const known = this.#nodes.get(id);
    const address = member?.endpoints.link;
    // A member that left may only have lost its lease: the link itself tells whether it lives.
    if (member === undefined || address === undefined || member.incarnation === undefined) return;
    if (known !== undefined && known.address === address && known.incarnation === member.incarnation) return;
    known?.link.close();
    this.#nodes.delete(id);
    this.#open(id, address, member.incarnation);
  }

  #open(id: MemberId, address: string, incarnation: string): void {
    const { context, logger, onLink } = this.#options;
    const hosts = new Map<number, PartitionHost>();
    const link = new ReconnectingLink(context, {
      address,
      purpose: "log",
      expect: { service: "segment-store", memberId: id, incarnation },
      handlers: { onFrame: (from, frame) => this.#onFrame(id, hosts, from, frame) },
      onState: (state) => {
        if (this.#nodes.get(id)?.link !== undefined && this.#nodes.get(id)?.link !== link) return;
        if (state.kind === "up") {
          logger.info("storage node link up", { node: id, address });
          onLink(id, true, "none");
        } else if (state.kind === "down") {
          if (state.attempt === 1)
            logger.warn("storage node link down", { node: id, reason: state.reason.kind, message: state.reason.message });
          onLink(id, false, failureOf(state));
        }
      },
    });
    this.#nodes.set(id, { address, incarnation, link, hosts });
  }

  #onFrame(node: MemberId, hosts: ReadonlyMap<number, PartitionHost>, link: Link, frame: Frame): void {
    if (frame.type !== FrameType.appended) {
      if (frame.type !== FrameType.error)
        link.sendError(frame.correlation, frame.type, "UNKNOWN_FRAME", "a broker expects appended frames here");
      link.release(frame.creditBytes);
      return;
    }
    const m = appendedCodec.decode(frame, this.#appended);
    link.release(frame.creditBytes);
    for (let i = 0; i < m.count; i += 1) {
      const entry = m.entries[i];
      if (entry === undefined) continue;
      try {
        hosts.get(entry.segmentNumber)?.input({
          kind: "appended",
          node,
          segmentNumber: entry.segmentNumber,
          code: entry.code,
          durable: entry.durable,
          barrier: entry.barrier,
        });
      } catch (error) {
        this.#options.logger.error("append answer not handled", { node, code: codeOf(error), err: error });
      }
    }
  }
}

function failureOf(state: Extract<LinkState, { kind: "down" }>): ControlFailure {
  switch (state.reason.kind) {
    case "refused":
      return "refused";
    case "timeout":
      return "timeout";
    default:
      return "reset";
  }
}

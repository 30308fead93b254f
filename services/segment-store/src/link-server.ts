import { decodeAnnotations } from "@sluice/core/log";
import { codeOf, epoch, errorNumber, limits, topicId } from "@sluice/core/model";
import type { AppendedAnswer } from "@sluice/core/replica";
import {
  addAppended,
  appendCodec,
  APPENDED_ENTRIES_MAX,
  appendedCodec,
  claimPayload,
  dataCodec,
  FrameType,
  listenLinks,
  readCodec,
  type AppendMessage,
  type Frame,
  type Hold,
  type Link,
  type LinkContext,
  type LinkServer,
} from "@sluice/link";
import type { StoreMetrics } from "./metrics.ts";
import type { ReplicaHost } from "./replica-host.ts";
import type { SegmentReader } from "./segment-reader.ts";
import { spanAttributes, type Span, type Tracer } from "@sluice/runtime";

export interface StoreLinkOptions {
  readonly context: LinkContext;
  readonly address: string;
  readonly host: ReplicaHost;
  readonly reader: SegmentReader;
  readonly metrics: StoreMetrics;
  readonly tracer?: Tracer | undefined;
}
interface Peer {
  readonly link: Link;
  readonly origin: number;
}
/** Credit that is given back when the journal is durable up to a sequence: a slow disk slows the sender, not the memory. */
interface Held {
  readonly sequence: number;
  readonly link: Link;
  readonly bytes: number;
  /** Of the payload: the journal has written it then, and nobody else keeps it. */
  readonly hold: Hold;
  /** Of an append that is being recorded: until it is durable. */
  readonly span: Span | undefined;
}
const EMPTY = new Uint8Array(0);

/** The data link of a storage node: appends in, cumulative answers out (all of a group in one frame); reads in, data out. */
export class StoreLinkServer {
  readonly #options: StoreLinkOptions;
  readonly #append = appendCodec.create();
  readonly #read = readCodec.create();
  readonly #appended = appendedCodec.create();
  readonly #peers = new Map<Link, Peer>();
  #held: Held[] = [];
  #server: LinkServer | undefined;

  constructor(options: StoreLinkOptions) {
    this.#options = options;
    options.host.onDurable = (sequence) => this.#release(sequence);
  }
  get address(): string {
    return this.#server?.address ?? this.#options.address;
  }
  get links(): number {
    return this.#peers.size;
  }
  async start(): Promise<void> {
    this.#server = await listenLinks(this.#options.context, {
      address: this.#options.address,
      handlers: {
        onOpen: (link) => this.#opened(link),
        onClose: (link) => this.#closed(link),
        onFrame: (link, frame) => this.#onFrame(link, frame),
      },
    });
  }
  async stop(): Promise<void> {
    await this.#server?.close();
  }

  #opened(link: Link): void {
    const origin = this.#options.host.addOrigin((answers) => this.#answer(link, answers));
    this.#peers.set(link, { link, origin });
  }
  #closed(link: Link): void {
    const peer = this.#peers.get(link);
    if (peer === undefined) return;
    this.#peers.delete(link);
    this.#options.host.removeOrigin(peer.origin);
  }

  #onFrame(link: Link, frame: Frame): void {
    if (frame.type === FrameType.append) this.#onAppend(link, frame);
    else if (frame.type === FrameType.read) this.#onRead(link, frame);
    else {
      if (frame.type !== FrameType.error)
        link.sendError(frame.correlation, frame.type, "UNKNOWN_FRAME", "a storage node takes append and read frames");
      link.release(frame.creditBytes);
    }
  }

  #onAppend(link: Link, frame: Frame): void {
    const { host, metrics } = this.#options;
    const peer = this.#peers.get(link);
    const m = appendCodec.decode(frame, this.#append);
    const credit = frame.creditBytes;
    if (peer === undefined) {
      link.release(credit);
      return;
    }
    metrics.appended(frame.payload.length);
    const hold = claimPayload(frame);
    const { appendTimeMs, traceParent } = decodeAnnotations(m.annotations);
    const before = host.state.sequence;
    host.append(peer.origin, {
      segmentNumber: m.segmentNumber,
      epoch: epoch(m.epoch),
      base: m.base,
      firstOffset: m.firstOffset,
      lastOffset: m.lastOffset,
      lac: m.lac,
      barrier: m.barrier,
      payload: frame.payload,
      ...(appendTimeMs === undefined ? undefined : { appendMs: appendTimeMs }),
    });
    // Refused, a retry or a barrier: nothing of it waits for the disk.
    if (host.state.sequence !== before && !host.state.failed) {
      const span = traceParent === undefined ? undefined : this.#span(traceParent, m, frame.payload.length);
      this.#held.push({ sequence: host.state.sequence, link, bytes: credit, hold, span });
      return;
    }
    link.release(credit);
    // A failed journal may still be writing.
    if (!host.state.failed) hold.release();
  }
  #span(parent: Uint8Array, m: AppendMessage, bytes: number): Span | undefined {
    const { host, tracer } = this.#options;
    return tracer?.begin("journal append", parent, {
      [spanAttributes.operation]: "append",
      [spanAttributes.segment]: host.state.byNumber.get(m.segmentNumber)?.key ?? "",
      [spanAttributes.firstOffset]: m.firstOffset,
      [spanAttributes.bytes]: bytes,
    });
  }
  #release(upTo: number): void {
    let released = 0;
    const sums = new Map<Link, number>();
    for (const h of this.#held) {
      if (h.sequence > upTo) break;
      released++;
      sums.set(h.link, (sums.get(h.link) ?? 0) + h.bytes);
      h.span?.end(this.#options.host.state.failed ? "IO_FAILED" : undefined);
      if (!this.#options.host.state.failed) h.hold.release();
    }
    if (released === 0) return;
    this.#held.splice(0, released);
    for (const [link, bytes] of sums) if (!link.closed) link.release(bytes);
  }

  #answer(link: Link, answers: readonly AppendedAnswer[]): void {
    const m = this.#appended;
    m.count = 0;
    for (const a of answers) {
      addAppended(m, a.segmentNumber, a.code, a.durable, a.barrier);
      if (m.count === APPENDED_ENTRIES_MAX) this.#send(link);
    }
    if (m.count > 0) this.#send(link);
  }
  #send(link: Link): void {
    // A peer that does not read its answers is cut off: it learns what is durable when it comes back.
    if (!link.send(appendedCodec, 0, this.#appended)) link.close("OVERLOADED", "the peer does not read its answers");
    this.#appended.count = 0;
  }

  #onRead(link: Link, frame: Frame): void {
    const m = readCodec.decode(frame, this.#read);
    const { correlation } = frame;
    link.release(frame.creditBytes);
    const request = {
      partition: { topicId: topicId(m.topicId), partition: m.partition },
      segment: { epoch: epoch(m.segmentEpoch), k: m.segmentK },
      from: m.from,
      maxBytes: Math.min(m.maxBytes, limits.fetchBytesMax),
      highWatermark: m.highWatermark,
      highWatermarkEpoch: m.highWatermarkEpoch,
    };
    this.#options.reader.read(request).then(
      (answer) => {
        if (link.closed) return;
        if (!link.send(dataCodec, correlation, answer, answer.payload))
          link.sendError(correlation, FrameType.read, "OVERLOADED", "the answers of this link are not read");
      },
      (error: unknown) => {
        if (!link.closed) link.send(dataCodec, correlation, { code: errorNumber(codeOf(error)), sealed: false, limit: -1 }, EMPTY);
      },
    );
  }
}

import { crc32c, nativeCodecs } from "@sluice/codec";
import { BatchBuilder, stampBatch } from "@sluice/core/log";
import { errorNumber, memberId, topicId, type ErrorCode, type MemberId, type PartitionId } from "@sluice/core/model";
import {
  FrameType,
  newFrame,
  producedCodec,
  tailCodec,
  type AnswerCallback,
  type Frame,
  type Link,
  type ProduceMessage,
  type SubscribeMessage,
  type TailMessage,
} from "@sluice/link";
import type { BrokerLinks } from "../../src/index.ts";

export const partition: PartitionId = { topicId: topicId("0123abcd-0000-4000-8000-00000000beef"), partition: 0 };
export const a = memberId("broker-a");
export const b = memberId("broker-b");
export const c = memberId("broker-c");

interface Sent {
  readonly message: ProduceMessage;
  readonly payload: Uint8Array;
  readonly callback: AnswerCallback;
}
/** A link whose other end is the test. Only what the router and the follower use is there. */
export class FakeLink {
  writable = true;
  closed = false;
  readonly sent: Sent[] = [];
  readonly frames: { readonly number: number; readonly type: number; readonly message: unknown }[] = [];
  released = 0;
  #correlation = 0;

  get link(): Link {
    return this as unknown as Link;
  }
  request(_codec: unknown, message: ProduceMessage, payload: Uint8Array, _timeoutMs: number, callback: AnswerCallback): boolean {
    if (this.closed) return false;
    this.sent.push({ message: { ...message }, payload, callback });
    return true;
  }
  send(codec: { readonly type: number }, number: number, message: SubscribeMessage): boolean {
    if (this.closed) return false;
    this.frames.push({ number, type: codec.type, message: { ...message } });
    return true;
  }
  nextCorrelation(): number {
    return ++this.#correlation;
  }
  release(bytes: number): void {
    this.released += bytes;
  }
  /** Payloads that wait for an answer, as text. */
  get waiting(): string[] {
    return this.sent.map((s) => new TextDecoder().decode(s.payload));
  }
  /** Answers the oldest request. */
  ok(baseOffset: number): void {
    this.#answer({ ...producedCodec.create(), code: 0, baseOffset, lastOffset: baseOffset });
  }
  refuse(code: ErrorCode, hint = "", cause?: ErrorCode): void {
    this.#answer({
      ...producedCodec.create(),
      code: errorNumber(code),
      ownerHint: hint,
      cause: cause === undefined ? 0 : errorNumber(cause),
    });
  }
  /** The link ends: sent requests have an unknown outcome. */
  die(sent = true): void {
    this.closed = true;
    this.writable = false;
    for (const { callback } of this.sent.splice(0))
      callback(undefined, { code: sent ? "OUTCOME_UNKNOWN" : "LINK_DOWN", message: "gone", sent, answered: false });
  }
  #answer(message: ReturnType<typeof producedCodec.create>): void {
    const request = this.sent.shift();
    if (request === undefined) throw new Error("nothing to answer");
    request.callback(frameOf(producedCodec, message), undefined);
  }
  tail(number: number, message: Partial<TailMessage>, payload: Uint8Array = new Uint8Array(0)): Frame {
    return {
      ...frameOf(tailCodec, { ...tailCodec.create(), ...message }),
      type: FrameType.tail,
      correlation: number,
      payload,
      creditBytes: 7,
    };
  }
}
function frameOf<T>(
  codec: { size(m: T): number; encode(m: T, view: DataView, at: number): void; readonly type: number },
  message: T,
): Frame {
  const view = new DataView(new ArrayBuffer(codec.size(message)));
  codec.encode(message, view, 0);
  return { ...newFrame(), type: codec.type, view, headerAt: 0, headerEnd: view.byteLength };
}

/** Who owns the partition, and the links to the brokers, by the test's word. */
export class FakeLinks {
  owner: MemberId | undefined = a;
  readonly up = new Map<MemberId, FakeLink>();
  get links(): BrokerLinks {
    return this as unknown as BrokerLinks;
  }
  ownerOf(): MemberId | undefined {
    return this.owner;
  }
  get(broker: MemberId): Link | undefined {
    return this.up.get(broker)?.link;
  }
}

const utf8 = new TextEncoder();
export const bytesOf = (text: string): Uint8Array => utf8.encode(text);
/** A stamped batch of `count` records. */
export function stamped(baseOffset: number, count: number, epoch: number, value = "v"): Uint8Array {
  const builder = new BatchBuilder({ crc32c, codecs: nativeCodecs });
  for (let i = 0; i < count; i += 1) builder.tryAppend(1_000, null, utf8.encode(value));
  const batch = builder.close();
  stampBatch(batch, 0, baseOffset, epoch);
  return batch;
}

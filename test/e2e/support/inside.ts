import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ClusterView, createKeys, type Keys } from "@sluice/catalog";
import { crc32c, nativeCodecs } from "@sluice/codec";
import { BatchBuilder } from "@sluice/core/log";
import { timers, topicId, type PartitionId, type SegmentRecord } from "@sluice/core/model";
import {
  call,
  connectLink,
  dataCodec,
  produceCodec,
  producedCodec,
  readCodec,
  type Answer,
  type ExpectedPeer,
  type Link,
  type LinkContext,
  type LinkPurpose,
  type ProducedMessage,
} from "@sluice/link";
import { openEtcdMetadata, type MetadataStore } from "@sluice/metadata";
import { silentLogger, systemClock, systemRandom } from "@sluice/runtime";
import type { TestCluster } from "./cluster.ts";

const RETRY_MS = 100;
const utf8 = new TextEncoder();

/** A member of the cluster that only tests have: it knows the secret, reads the metadata, and opens links as a proxy does. */
export class Inside {
  readonly view: ClusterView;
  readonly store: MetadataStore;
  readonly keys: Keys;
  readonly context: LinkContext;
  readonly #links: Link[] = [];

  private constructor(view: ClusterView, store: MetadataStore, keys: Keys, context: LinkContext) {
    this.view = view;
    this.store = store;
    this.keys = keys;
    this.context = context;
  }
  static async open(cluster: TestCluster): Promise<Inside> {
    const common = { clock: systemClock, random: systemRandom, logger: silentLogger };
    const endpoint = cluster.handle.spec.etcd[0]!.client.replace(/^(?!https?:)/, "http://");
    const store = openEtcdMetadata({ endpoints: [endpoint], ...common });
    const keys = createKeys();
    const view = new ClusterView({ store, keys, clock: systemClock, logger: silentLogger, retryMs: RETRY_MS });
    await view.start();
    const known = view.cluster!;
    const secret = await readFile(join(cluster.handle.dir, "secrets", "cluster.secret"));
    const identity = {
      clusterId: known.clusterId,
      generation: known.generation,
      service: "proxy" as const,
      memberId: "test-member",
      instance: randomUUID(),
      incarnation: "",
      zone: "a",
    };
    return new Inside(view, store, keys, { ...common, timers, identity, secret: new Uint8Array(secret) });
  }

  partition(topic: string, partition: number): PartitionId {
    const record = this.view.topic("default", topic);
    if (record === undefined) throw new Error(`the metadata has no topic ${topic}`);
    return { topicId: topicId(record.topicId), partition };
  }
  segments(p: PartitionId): SegmentRecord[] {
    return this.view.segmentsOf(p).map(({ record }) => record);
  }
  async connect(address: string, purpose: LinkPurpose, expect?: ExpectedPeer): Promise<Link> {
    const handlers = { onFrame: (link: Link, frame: { creditBytes: number }) => link.release(frame.creditBytes) };
    const link = await connectLink(this.context, { address, purpose, handlers, ...(expect === undefined ? {} : { expect }) });
    this.#links.push(link);
    return link;
  }
  async produce(link: Link, p: PartitionId, batch: Uint8Array, timeoutMs: number): Promise<ProducedMessage> {
    const message = { ...produceCodec.create(), ...p, deadlineMs: timeoutMs };
    const answer = await call(link, produceCodec, message, producedCodec, timeoutMs, batch);
    link.release(answer.creditBytes);
    return answer.message;
  }
  /** One read of a storage node, with a mark of the reader's choice. */
  async read(link: Link, p: PartitionId, segment: SegmentRecord, from: number, mark: { epoch: number; committed: number }) {
    const answer: Answer<{ code: number; sealed: boolean; limit: number }> = await call(
      link,
      readCodec,
      {
        ...p,
        segmentEpoch: segment.segment.epoch,
        segmentK: segment.segment.k,
        maxBytes: 1_000_000,
        from,
        highWatermark: mark.committed,
        highWatermarkEpoch: mark.epoch,
      },
      dataCodec,
      2_000,
    );
    link.release(answer.creditBytes);
    return { ...answer.message, bytes: Buffer.from(answer.payload) };
  }
  async [Symbol.asyncDispose](): Promise<void> {
    for (const link of this.#links) link.close();
    await this.view.close();
    await this.store.close();
  }
}

/** One batch of a producer that has no id: nobody sends it twice. */
export function plainBatch(values: readonly string[]): Uint8Array {
  const builder = new BatchBuilder({ crc32c, codecs: nativeCodecs });
  for (const value of values) builder.tryAppend(Date.now(), utf8.encode(value.split("/")[0]), utf8.encode(`${value}|`));
  return builder.close({}).slice();
}

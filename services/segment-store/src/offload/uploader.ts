import { segmentCodec, segmentObjectKey, type Keys } from "@sluice/catalog";
import { crc32c } from "@sluice/codec";
import { readSegmentFooter, SEGMENT_FOOTER_BYTES, SEGMENT_FORMAT, segmentParts, SegmentObjectWriter } from "@sluice/core/log";
import { codeOf, SluiceError, sameSegment } from "@sluice/core/model";
import type { ClusterRecord, SegmentRecord } from "@sluice/core/model";
import type { Segment } from "@sluice/core/replica";
import { producersAtLast } from "@sluice/core/replica";
import type { MetadataStore } from "@sluice/metadata";
import { checkClusterMarker, type ObjectStore } from "@sluice/object-store";
import type { Clock, Logger, Random } from "@sluice/runtime";
import type { StoreMetrics } from "../metrics.ts";
import type { JournalReader } from "../reader.ts";
import type { ReplicaHost } from "../replica-host.ts";
import { replaceRecord, settle } from "./segment-keys.ts";

export interface UploaderOptions {
  readonly store: MetadataStore;
  readonly keys: Keys;
  readonly objects: ObjectStore;
  readonly cluster: ClusterRecord;
  readonly host: ReplicaHost;
  readonly reader: JournalReader;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly metrics: StoreMetrics;
}
export interface SegmentKeyAt {
  readonly key: string;
  readonly record: SegmentRecord;
  readonly modRevision: number;
}
const RUN_BYTES = 1024 * 1024;
/** Up to this size an object is one PUT from memory; above it goes in parts, so that memory stays small whatever `segment.bytes` says. */
const ONE_PUT_BYTES_MAX = 32 * 1024 * 1024;
const PART_BYTES = 16 * 1024 * 1024;
const VERIFY_BYTES = 4 * 1024 * 1024;

type Written = ReturnType<SegmentObjectWriter["finish"]>;

/**
 * One sealed segment to one object:
 *
 *   O1 SEALED -> UPLOADING{attempt}   O2 put under the attempt's own key   O3 read all of it back   O4 -> OFFLOADED{object}
 *
 * An attempt that loses its key at O4 deletes its own object and nothing else.
 */
export class Uploader {
  readonly #options: UploaderOptions;
  #marked = false;
  constructor(options: UploaderOptions) {
    this.#options = options;
  }

  /** `at` is a fresh read of the key. Returns true when the segment is OFFLOADED by this attempt. Throws when it could not be; the next try is a new attempt. */
  async upload(segment: Segment, at: SegmentKeyAt, signal: AbortSignal): Promise<boolean> {
    const { random, cluster, logger, metrics, clock, store } = this.#options;
    const { record } = at;
    if (segment.status !== "SEALED" || segment.end !== record.end || segment.base !== record.base)
      throw new SluiceError("SEGMENT_INCOMPLETE", "this copy is not the sealed segment");
    await this.#checkMarker();
    const attempt = random.uuid();
    const intent: SegmentRecord = { ...record, phase: "UPLOADING", attempt };
    if (!(await replaceRecord(store, at, intent, signal))) return false;
    const key = segmentObjectKey({
      clusterId: cluster.clusterId,
      partition: segment.partition,
      base: record.base,
      segment: record.segment,
      attempt,
    });
    const began = clock.monotonicMs();
    try {
      const written = await this.#put(segment, record, key, signal);
      await this.#verify(key, written, signal);
      const won = await this.#publish(at.key, record, attempt, key, written, signal);
      if (!won) await this.#discard(key, segment);
      metrics.upload(won ? "done" : "lost", written.length);
      const bytes = written.length;
      const tookMs = Math.round(clock.monotonicMs() - began);
      if (won) logger.info("segment uploaded", { partition: segment.partitionKey, segment: segment.key, object: key, bytes, tookMs });
      else logger.info("upload lost its segment", { partition: segment.partitionKey, segment: segment.key, object: key });
      return won;
    } catch (error) {
      const what = { partition: segment.partitionKey, segment: segment.key, object: key };
      // The node stops: the next start, or another copy's node, begins anew.
      if (signal.aborted) logger.info("upload given up", what);
      else {
        metrics.upload("failed", 0);
        logger.warn("upload failed", { ...what, code: codeOf(error), err: error });
      }
      // The object may be there, whole or in part, and perhaps the key names it: only what certainly lost is deleted here, the sweep finds the rest.
      if (codeOf(error) === "CORRUPT_SEGMENT" || codeOf(error) === "OBJECT_NOT_FOUND") await this.#giveUp(at.key, attempt, signal);
      throw error;
    }
  }

  /** Once: nothing is written to a store that keeps another cluster's history. */
  async #checkMarker(): Promise<void> {
    if (this.#marked) return;
    const { objects, cluster } = this.#options;
    await checkClusterMarker(objects, cluster.clusterId, cluster.generation);
    this.#marked = true;
  }

  /** O2. Every batch is checked as it passes: place, epoch, CRC, and the chain hash at the end. */
  async #put(segment: Segment, record: SegmentRecord, key: string, signal: AbortSignal): Promise<Written> {
    const { objects, host } = this.#options;
    const writer = new SegmentObjectWriter({ base: record.base, crc32c, epoch: segment.id.epoch });
    const finish = (): Written => {
      const written = writer.finish({
        end: record.end as number,
        producers: producersAtLast(host.state, segment) ?? new Uint8Array(0),
        aborted: [],
      });
      for (const expected of [record.chainHash, segment.chain?.hex()])
        if (expected !== undefined && expected !== "" && expected !== written.footer.chainHash)
          throw new SluiceError("CORRUPT_SEGMENT", `chain hash ${written.footer.chainHash}, expected ${expected}`);
      return written;
    };
    if (segment.sizeBytes <= ONE_PUT_BYTES_MAX) {
      const parts: Uint8Array[] = [];
      for await (const run of this.#runs(segment, record, writer, signal)) parts.push(run);
      const written = finish();
      parts.push(written.tail);
      await objects.put(key, parts, { signal });
      return written;
    }
    let written: Written | undefined;
    const runs = this.#runs(segment, record, writer, signal);
    async function* body(): AsyncGenerator<Uint8Array> {
      yield* runs;
      written = finish();
      yield written.tail;
    }
    await objects.putMultipart(key, body(), { partBytes: PART_BYTES, signal });
    if (written === undefined) throw new SluiceError("INTERNAL", "the object store did not take the whole body");
    return written;
  }
  async *#runs(segment: Segment, record: SegmentRecord, writer: SegmentObjectWriter, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const end = record.end as number;
    while (writer.nextOffset <= end) {
      signal.throwIfAborted();
      const run = await this.#options.reader.read(segment, writer.nextOffset, end, RUN_BYTES);
      if (run.length === 0) throw new SluiceError("CORRUPT_SEGMENT", `offset ${writer.nextOffset} is missing in this copy`);
      writer.add(run);
      yield run;
    }
  }

  /** O3. What the store gives back is what was sent: size, footer, and every byte of every part. */
  async #verify(key: string, written: Written, signal: AbortSignal): Promise<void> {
    const { objects } = this.#options;
    const differs = (what: string): SluiceError => new SluiceError("CORRUPT_SEGMENT", `object ${key} read back: ${what}`);
    const info = await objects.head(key, { signal });
    if (info === undefined) throw new SluiceError("OBJECT_NOT_FOUND", `object ${key} is not there after its upload`);
    if (info.sizeBytes !== written.length) throw differs(`${info.sizeBytes} bytes instead of ${written.length}`);
    const tail = await objects.getRange(key, written.length - SEGMENT_FOOTER_BYTES, SEGMENT_FOOTER_BYTES, { signal });
    const footer = readSegmentFooter(tail, written.length, crc32c);
    for (const [name, value] of Object.entries(written.footer))
      if ((footer as unknown as Record<string, unknown>)[name] !== value) throw differs(`${name} is another`);
    const parts = segmentParts(footer);
    let crc = 0;
    for (let at = 0; at < footer.batchBytes; at += VERIFY_BYTES) {
      const length = Math.min(VERIFY_BYTES, footer.batchBytes - at);
      crc = crc32c(await objects.getRange(key, at, length, { signal }), crc);
    }
    if (crc !== footer.batchCrc) throw differs("the batches fail their CRC");
    const rest = written.length - footer.batchBytes;
    const trailer = await objects.getRange(key, footer.batchBytes, rest, { signal });
    if (parts.length !== written.length || crc32c(trailer) !== crc32c(written.tail)) throw differs("index or footer differ");
  }

  /** O4. Only while the key still names this attempt; other fields may have changed meanwhile and are kept. */
  async #publish(
    key: string,
    first: SegmentRecord,
    attempt: string,
    objectKey: string,
    written: Written,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { store, clock } = this.#options;
    for (;;) {
      const { entry } = await store.get(key);
      if (entry === undefined) return false;
      const record = segmentCodec.decode(entry.value);
      if (record.object?.key === objectKey) return true;
      if (record.phase !== "UPLOADING" || record.attempt !== attempt || !sameSegment(record.segment, first.segment)) return false;
      const { attempt: _done, ...kept } = record;
      const next: SegmentRecord = {
        ...kept,
        phase: "OFFLOADED",
        object: { key: objectKey, at: 0, length: written.length, format: SEGMENT_FORMAT },
        sizeBytes: written.footer.batchBytes,
        chainHash: written.footer.chainHash,
        offloadedAtMs: clock.wallMs(),
      };
      const done = await settle(
        store,
        {
          compare: [{ key, target: "mod", equals: entry.modRevision }],
          then: [{ kind: "put", key, value: segmentCodec.encode(next, record) }],
        },
        signal,
      );
      if (done.succeeded) return true;
    }
  }
  async #discard(objectKey: string, segment: Segment): Promise<void> {
    const { objects, logger } = this.#options;
    await objects
      .delete(objectKey)
      .catch((error: unknown) =>
        logger.warn("object of a lost upload stays for the sweep", { segment: segment.key, object: objectKey, code: codeOf(error) }),
      );
  }
  /** Back to SEALED, so that another copy uploads: this one is not what it must be. */
  async #giveUp(key: string, attempt: string, signal: AbortSignal): Promise<void> {
    const { store } = this.#options;
    const { entry } = await store.get(key);
    if (entry === undefined) return;
    const record = segmentCodec.decode(entry.value);
    if (record.phase !== "UPLOADING" || record.attempt !== attempt) return;
    const { attempt: _gone, ...kept } = record;
    await replaceRecord(store, { key, record, modRevision: entry.modRevision }, { ...kept, phase: "SEALED" }, signal);
  }
}

import { decodeGroupRecord, type EncodedRecord } from "@sluice/core/group";
import { SluiceError } from "@sluice/core/model";
import type { AppendCondition, AppendResult, LogRecord, ShardLog } from "../../src/shard-log.ts";

/** A partition in memory, with the rules of a broker for conditional appends. */
export class FakePartition {
  readonly records: EncodedRecord[] = [];
  /** Records below it are gone. */
  start = 0;
  #token = -1;

  /** What a broker remembers of fence tokens is lost when the partition moves to another one. */
  moveToAnotherBroker(): void {
    this.#token = -1;
  }
  append(records: readonly EncodedRecord[], { expectedBaseOffset, fenceToken }: AppendCondition): AppendResult {
    if (fenceToken >= 0 && fenceToken < this.#token) return { kind: "fenced" };
    if (expectedBaseOffset >= 0 && expectedBaseOffset !== this.records.length) return { kind: "conflict" };
    this.#token = Math.max(this.#token, fenceToken);
    const baseOffset = this.records.length;
    this.records.push(...records);
    return { kind: "stored", baseOffset };
  }
  read(from: number, end: number): LogRecord[] {
    if (from < this.start) throw new SluiceError("OFFSET_OUT_OF_RANGE", `offset ${from} is before the log start ${this.start}`);
    return this.records.slice(from, Math.min(end, from + 3)).map(({ key, value }, i) => ({ offset: from + i, key, value }));
  }
  /** For people: `offset readers orders/0=5`. */
  get lines(): string[] {
    return this.records.map(({ key, value }, at) => {
      const record = decodeGroupRecord(key, value);
      if (record.kind === "owner") return `${at} owner ${record.member}@${record.epoch}`;
      if (record.kind !== "offset") return `${at} ${record.kind} ${record.key.group}`;
      return `${at} ${record.key.group} ${record.key.topicId}/${record.key.partition}=${record.value?.offset}`;
    });
  }
}

/**
 * What becomes of the next append:
 *   lost    never stored, its outcome unknown           applied   stored, its outcome unknown
 *   late    outcome unknown now, tried again by the network after the log was read once
 *   refused not stored, and said so                     held      waits for `release`, then goes on
 */
export type Fate = "lost" | "applied" | "late" | "refused" | "held";

/** One coordinator's way to the partition. */
export class FakeLog implements ShardLog {
  readonly partition: FakePartition;
  readonly fates: Fate[] = [];
  appends = 0;
  /** The end cannot be confirmed, and nothing be read. */
  unreadable = false;
  #late: (() => void)[] = [];
  #held: (() => void)[] = [];

  constructor(partition: FakePartition) {
    this.partition = partition;
  }
  get held(): boolean {
    return this.#held.length > 0;
  }
  release(): void {
    for (const go of this.#held.splice(0)) go();
  }
  async append(records: readonly EncodedRecord[], condition: AppendCondition): Promise<AppendResult> {
    this.appends += 1;
    const fate = this.fates.shift();
    await Promise.resolve();
    switch (fate) {
      case "lost":
        return { kind: "unknown", code: "OUTCOME_UNKNOWN" };
      case "applied":
        this.partition.append(records, condition);
        return { kind: "unknown", code: "TIMED_OUT" };
      case "late":
        this.#late.push(() => void this.partition.append(records, condition));
        return { kind: "unknown", code: "OUTCOME_UNKNOWN" };
      case "refused":
        return { kind: "refused", code: "NOT_OWNER" };
      case "held":
        await new Promise<void>((resolve) => this.#held.push(resolve));
        return this.partition.append(records, condition);
      default:
        return this.partition.append(records, condition);
    }
  }
  async end(): Promise<number> {
    await Promise.resolve();
    if (this.unreadable) throw new SluiceError("NOT_OWNER", "nobody owns the partition");
    const end = this.partition.records.length;
    for (const arrive of this.#late.splice(0)) queueMicrotask(arrive);
    return end;
  }
  async read(from: number, end: number): Promise<readonly LogRecord[]> {
    await Promise.resolve();
    if (this.unreadable) throw new SluiceError("READ_UNAVAILABLE", "no copy answers");
    return this.partition.read(from, end);
  }
}

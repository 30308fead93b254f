import type { GroupConsumer, RecordBatch, Sluice } from "@sluice/client";
import { isSluiceError, SluiceError } from "@sluice/core/model";
import { systemClock } from "@sluice/runtime/clock";
import { typed } from "../command-line.ts";
import { type ConnectionOptions, endpointFlag, withConnection } from "../connect.ts";
import { exitCodes, UsageError } from "../exit.ts";
import { type FromPosition, positionText } from "../position.ts";
import { plural } from "../output.ts";
import { formatRecordLine } from "../record-line.ts";
import type { Terminal } from "../terminal.ts";

export interface ConsumeGroupOptions extends ConnectionOptions {
  readonly group: string;
  /** Where partitions begin that the group has no offset for. */
  readonly from: FromPosition;
  readonly until?: unknown;
  readonly partition?: number;
  readonly exitOnEnd?: boolean;
  readonly output: "value" | "jsonl";
}
const END_POLL_MS = 50;

/** Reads as a member of a group. What was written out is committed. */
export async function consumeGroup(topic: string, options: ConsumeGroupOptions, terminal: Terminal): Promise<number> {
  const { group, from } = options;
  if (options.until !== undefined || options.partition !== undefined)
    throw new UsageError("--until and --partition do not go with --group: the group decides what is read");
  if (from.at !== "earliest" && from.at !== "latest")
    throw new UsageError(
      `--from takes earliest or latest with --group. To set where the group goes on: ${typed("group", "reset", group, "--topic", topic, "--to", positionText(from), ...endpointFlag(options))}`,
    );
  return withConnection(terminal, options, async (sluice) => {
    const signal = terminal.interrupts();
    // A topic that is not there is a mistake here, and nothing to wait for.
    await sluice.admin.describeTopic(topic);
    const ends = options.exitOnEnd === true ? await endsOf(sluice, topic) : undefined;
    const member = sluice.subscribe({ group, topics: [topic], from: from.at });
    const stop = (): void => void member.close();
    signal.addEventListener("abort", stop, { once: true });
    const watch = ends === undefined ? undefined : watchEnds(member, ends, stop);
    let records = 0;
    try {
      for await (const batch of member.batches()) {
        records += batch.records.length;
        await write(batch, options.output, terminal);
      }
    } catch (error) {
      // The way past it is another one for a group.
      if (isSluiceError(error) && error.code === "UNREADABLE_BATCH")
        throw new SluiceError(error.code, error.message, { cause: error, details: { ...error.details, group } });
      throw error;
    } finally {
      watch?.abort();
      signal.removeEventListener("abort", stop);
      await member.close();
    }
    terminal.note(plural(records, "record"));
    return ends !== undefined && signal.aborted ? exitCodes.interrupted : exitCodes.ok;
  });
}

const NEWLINE = Buffer.from("\n");
const EMPTY = new Uint8Array(0);
async function write({ records }: RecordBatch, output: "value" | "jsonl", terminal: Terminal): Promise<void> {
  if (output === "jsonl") await terminal.out(records.map((r) => formatRecordLine(r)).join(""));
  else await terminal.out(Buffer.concat(records.flatMap((r) => [r.value ?? EMPTY, NEWLINE])));
}
async function endsOf(sluice: Sluice, topic: string): Promise<ReadonlyMap<number, number>> {
  return new Map((await sluice.admin.listOffsets(topic, "latest")).map((o) => [o.partition, o.offset]));
}
/** Calls `done` when the member has given everything before the ends of what it reads; others may read the rest. */
function watchEnds(member: GroupConsumer, ends: ReadonlyMap<number, number>, done: () => void): AbortController {
  const over = new AbortController();
  const watch = async (): Promise<void> => {
    await member.ready();
    while (!over.signal.aborted) {
      if (member.positions().every((p) => p.offset >= (ends.get(p.partition) ?? 0))) return done();
      await systemClock.sleep(END_POLL_MS, over.signal);
    }
  };
  // A failure shows in the loop that reads.
  watch().catch(() => undefined);
  return over;
}

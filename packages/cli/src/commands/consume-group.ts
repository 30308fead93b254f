import type { ClientEvent, GroupConsumer, RecordBatch, Sluice } from "@sluice/client";
import { codeOf, isSluiceError, SluiceError } from "@sluice/core/model";
import { systemClock, type Timer } from "@sluice/runtime/clock";
import { typed } from "../command-line.ts";
import { type ConnectionOptions, endpointFlag, endpointsOf, withConnection } from "../connect.ts";
import { CommandFailure, exitCodes, messageOf, UsageError } from "../exit.ts";
import { type FromPosition, positionText } from "../position.ts";
import { plural } from "../output.ts";
import { formatRecordLine } from "../record-line.ts";
import { watchSilence } from "../silence-watch.ts";
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
/** What the client gives a member that closes, ms: half for its commit, half for its goodbye. */
const CLOSE_MS = 4_000;
const END_POLL_MS = 50;
/** A commit that takes longer is told of; most are over before anybody would read it. */
const COMMIT_NOTE_AFTER_MS = 300;

/** Reads as a member of a group. What was written out is committed. */
export async function consumeGroup(topic: string, options: ConsumeGroupOptions, terminal: Terminal): Promise<number> {
  const { group, from } = options;
  if (options.until !== undefined || options.partition !== undefined)
    throw new UsageError("--until and --partition do not go with --group: the group decides what is read");
  if (from.at !== "earliest" && from.at !== "latest")
    throw new UsageError(
      `--from takes earliest or latest with --group. To set where the group goes on: ${typed("group", "reset", group, "--topic", topic, "--to", positionText(from), ...endpointFlag(options))}`,
    );
  let lastCommit: Error | undefined;
  const onEvent = (event: ClientEvent): void => {
    if (event.type === "commit_failed" && event.last) lastCommit = event.error;
  };
  const work = async (sluice: Sluice): Promise<number> => {
    const signal = terminal.interrupts();
    // A topic that is not there is a mistake here, and nothing to wait for.
    await sluice.admin.describeTopic(topic, { signal });
    const ends = options.exitOnEnd === true ? await endsOf(sluice, topic, signal) : undefined;
    const member = sluice.subscribe({ group, topics: [topic], from: from.at });
    const stop = (): void => void member.close();
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    const watch = ends === undefined ? undefined : watchEnds(member, ends, stop);
    let records = 0;
    let isWriting = false;
    const silence = watchSilence({
      sluice,
      terminal,
      endpoints: endpointsOf(terminal, options),
      progress: () => records,
      waits: () => !isWriting && !signal.aborted,
      nothing: "nothing was read",
      writes: false,
      whenFine: () => (terminal.outputIsTerminal ? "waiting for records; Ctrl-C ends" : undefined),
    });
    const note = noteOfCommit(terminal, signal);
    try {
      for await (const batch of member.batches()) {
        isWriting = true;
        await write(batch, options.output, terminal);
        records += batch.records.length;
        isWriting = false;
      }
    } catch (error) {
      // The way past it is another one for a group.
      if (isSluiceError(error) && error.code === "UNREADABLE_BATCH")
        throw new SluiceError(error.code, error.message, { cause: error, details: { ...error.details, group } });
      throw error;
    } finally {
      watch?.abort();
      silence.stop();
      signal.removeEventListener("abort", stop);
      await member.close();
      note.cancel();
    }
    terminal.note(plural(records, "record"));
    if (lastCommit !== undefined)
      throw new CommandFailure(
        `${codeOf(lastCommit)}: the commit at the end failed: ${messageOf(lastCommit)}\n` +
          "  What was written out since the commit before is given to the group again",
        exitCodes.failure,
        { cause: lastCommit },
      );
    return ends !== undefined && signal.aborted ? exitCodes.interrupted : exitCodes.ok;
  };
  return withConnection(terminal, options, work, { onEvent });
}

/** An interrupt commits what was written out: when that takes its time, a person is told what is waited for. */
function noteOfCommit(terminal: Terminal, signal: AbortSignal): { cancel(): void } {
  let timer: Timer | undefined;
  const onInterrupt = (): void => {
    timer = systemClock.setTimer(COMMIT_NOTE_AFTER_MS, () =>
      terminal.note(`interrupted: waiting up to ${CLOSE_MS / 1_000} s for the commit of what was written out; Ctrl-C again ends at once`),
    );
  };
  signal.addEventListener("abort", onInterrupt, { once: true });
  if (signal.aborted) onInterrupt();
  return {
    cancel(): void {
      timer?.cancel();
      signal.removeEventListener("abort", onInterrupt);
    },
  };
}

const NEWLINE = Buffer.from("\n");
const EMPTY = new Uint8Array(0);
async function write({ records }: RecordBatch, output: "value" | "jsonl", terminal: Terminal): Promise<void> {
  if (output === "jsonl") await terminal.out(records.map((r) => formatRecordLine(r)).join(""));
  else await terminal.out(Buffer.concat(records.flatMap((r) => [r.value ?? EMPTY, NEWLINE])));
}
async function endsOf(sluice: Sluice, topic: string, signal: AbortSignal): Promise<ReadonlyMap<number, number>> {
  return new Map((await sluice.admin.listOffsets(topic, "latest", { signal })).map((o) => [o.partition, o.offset]));
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

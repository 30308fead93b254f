import type { ClusterDescription, Sluice } from "@sluice/client";
import { codeOf, type ErrorCode } from "@sluice/core/model";
import { systemClock, type Timer } from "@sluice/runtime/clock";
import { plural } from "./output.ts";
import { type Finding, found, look, noSilence } from "./silence.ts";
import type { Terminal } from "./terminal.ts";
import { whyUnwritable } from "./unwritable.ts";

const LOOK_EVERY_MS = 500;
const ASK_TIMEOUT_MS = 2_000;
/** Who reads may wait for days: the cluster is asked less often then. */
const ASK_EVERY_MS = { write: 1_000, read: 5_000 } as const;

export interface SilenceWatchOptions {
  readonly sluice: Sluice;
  readonly terminal: Pick<Terminal, "note">;
  readonly endpoints: readonly string[];
  /** Any change is progress. */
  readonly progress: () => number;
  /** False: nothing is expected now. Default true. */
  readonly waits?: () => boolean;
  /** What is missing, such as `nothing was acknowledged`. */
  readonly nothing: string;
  /** What keeps from writing alone is told. Who reads need not expect anything: that nothing is wrong is told by `whenFine` alone. */
  readonly writes: boolean;
  /** What a reader waits for while nothing is wrong. */
  readonly whenFine?: () => string | undefined;
}

/** Says on standard error why a command waits. It only looks, and never fails. */
export function watchSilence(options: SilenceWatchOptions): { stop(): void } {
  const { sluice, terminal, endpoints, nothing, writes, whenFine } = options;
  let state = noSilence(systemClock.monotonicMs());
  let timer: Timer | undefined;
  let stopped = false;
  const sight = (): boolean => {
    const next = look(state, { nowMs: systemClock.monotonicMs(), progress: options.progress(), waits: options.waits?.() ?? true });
    state = next.state;
    return next.ask;
  };
  const ask = async (): Promise<void> => {
    const finding = await sluice.admin.describeCluster({ timeoutMs: ASK_TIMEOUT_MS }).then(
      (cluster) => findingOf(cluster, writes),
      (error: unknown) => noAnswer(codeOf(error), endpoints),
    );
    // What has gone on meanwhile does not wait.
    if (stopped || !sight()) return;
    const next = found(state, finding, {
      nowMs: systemClock.monotonicMs(),
      askEveryMs: writes ? ASK_EVERY_MS.write : ASK_EVERY_MS.read,
    });
    state = next.state;
    const since = `${nothing} for ${Math.round(next.forMs / 1_000)} s`;
    if (next.say === "nothing") return;
    if (next.say === "back") terminal.note(`${endpoints.join(", ")} answers again; waiting`);
    else if (finding.kind !== "fine") terminal.note(`${since}: ${finding.text}; waiting`);
    else {
      const text = writes ? `${since}: the cluster shows nothing wrong; waiting` : whenFine?.();
      if (text !== undefined) terminal.note(text);
    }
  };
  const again = (): void => {
    if (stopped) return;
    const run = async (): Promise<void> => {
      if (sight()) await ask();
    };
    timer = systemClock.setTimer(LOOK_EVERY_MS, () => void run().finally(again), { unref: true });
  };
  again();
  return {
    stop(): void {
      stopped = true;
      timer?.cancel();
    },
  };
}

function noAnswer(code: ErrorCode, endpoints: readonly string[]): Finding {
  const why = ["UNREACHABLE", "TIMED_OUT", "OUTCOME_UNKNOWN"].includes(code) ? "" : ` (${code})`;
  return { kind: "unanswered", text: `no answer from ${endpoints.join(", ")}${why}` };
}
/** What of the cluster's state makes a writer, or a reader, wait. */
export function findingOf(cluster: ClusterDescription, writes: boolean): Finding {
  // The rest is only the last that was known.
  if (writes && cluster.metadataStale)
    return { kind: "stale", text: "the metadata store does not answer the server (METADATA_UNAVAILABLE)" };
  const why = writes ? whyUnwritable(cluster) : undefined;
  if (why !== undefined) return { kind: "unwritable", text: why };
  if (cluster.partitionsOffline > 0) return { kind: "offline", text: `${plural(cluster.partitionsOffline, "partition")} without a broker` };
  return { kind: "fine" };
}

/**
 * A command that waits says why, once for each kind of reason in a silence:
 *
 *   progress ──► quiet for SILENT_MS ──► ask the cluster ──► say what it shows ──► (another kind later) say that
 *       ▲                                                                            │
 *       └──────────────────────────────── progress ──────────────────────────────────┘
 */
export type Finding =
  /** The server does not answer. */
  | { readonly kind: "unanswered"; readonly text: string }
  /** It answers, and shows why. */
  | { readonly kind: "unwritable" | "offline" | "stale"; readonly text: string }
  /** It answers, and shows nothing that is wrong. */
  | { readonly kind: "fine" };

export interface Silence {
  readonly progress: number;
  readonly sinceMs: number;
  /** When the cluster may be asked (again). */
  readonly askAtMs: number;
  /** Kinds that were told in this silence. */
  readonly told: readonly Finding["kind"][];
}
/** Without progress for this long, a person is told why, ms. */
export const SILENT_MS = 5_000;

export const noSilence = (nowMs: number): Silence => ({ progress: -1, sinceMs: nowMs, askAtMs: nowMs + SILENT_MS, told: [] });

/** `waits`: something is expected; else a silence is none. */
export function look(
  state: Silence,
  input: { readonly nowMs: number; readonly progress: number; readonly waits: boolean },
): { readonly state: Silence; readonly ask: boolean } {
  const { nowMs, progress, waits } = input;
  if (!waits || progress !== state.progress)
    return { state: { progress, sinceMs: nowMs, askAtMs: nowMs + SILENT_MS, told: [] }, ask: false };
  return { state, ask: nowMs >= state.askAtMs };
}
/** What the cluster said. One that answers again may be gone again, and that is told again. */
export function found(
  state: Silence,
  finding: Finding,
  input: { readonly nowMs: number; readonly askEveryMs: number },
): { readonly state: Silence; readonly say: "finding" | "back" | "nothing"; readonly forMs: number } {
  const { kind } = finding;
  const isBack = kind !== "unanswered" && state.told.includes("unanswered");
  const isNew = !state.told.includes(kind);
  const told = [...state.told.filter((t) => t !== kind && (t !== "unanswered" || !isBack)), kind];
  const say = isBack && kind === "fine" ? "back" : isNew ? "finding" : "nothing";
  return { state: { ...state, askAtMs: input.nowMs + input.askEveryMs, told }, say, forMs: input.nowMs - state.sinceMs };
}

import { describe, expect, test } from "@jest/globals";
import { type Finding, found, look, noSilence, type Silence, SILENT_MS } from "../src/silence.ts";

const unanswered: Finding = { kind: "unanswered", text: "no answer" };
const offline: Finding = { kind: "offline", text: "1 partition without a broker" };
const fine: Finding = { kind: "fine" };

/** Looks once a second; each answer in turn, the last one for the rest. Gives second and what was said. */
function run(seconds: number, progressAt: readonly number[], findings: readonly Finding[], waits = true): string[] {
  let state: Silence = noSilence(0);
  let progress = 0;
  let asked = 0;
  const said: string[] = [];
  for (let s = 1; s <= seconds; s++) {
    if (progressAt.includes(s)) progress++;
    const next = look(state, { nowMs: s * 1_000, progress, waits });
    state = next.state;
    if (!next.ask) continue;
    const finding = findings[Math.min(asked++, findings.length - 1)]!;
    const told = found(state, finding, { nowMs: s * 1_000, askEveryMs: 1_000 });
    state = told.state;
    if (told.say !== "nothing") said.push(`${s}: ${told.say} ${finding.kind} for ${told.forMs / 1_000}`);
  }
  return said;
}

describe("a silence", () => {
  test("is told once, after its time", () => {
    expect(SILENT_MS).toBe(5_000);
    expect(run(30, [], [unanswered])).toEqual(["6: finding unanswered for 5"]);
    expect(run(30, [], [fine])).toEqual(["6: finding fine for 5"]);
  });
  test("ends with progress, and the next one is told again", () => {
    expect(run(20, [8], [offline])).toEqual(["6: finding offline for 5", "13: finding offline for 5"]);
    expect(run(20, [3, 6, 9, 12, 15, 18], [offline])).toEqual([]);
  });
  test("is none where nothing is expected", () => expect(run(30, [], [unanswered], false)).toEqual([]));
  test("with another reason is told of that too, with each once", () => {
    expect(run(30, [], [fine, offline, fine, offline, unanswered])).toEqual([
      "6: finding fine for 5",
      "7: finding offline for 6",
      "10: finding unanswered for 9",
    ]);
  });
  test("a server that answers again is told of, and when it is gone again", () => {
    expect(run(30, [], [unanswered, fine, fine, unanswered])).toEqual([
      "6: finding unanswered for 5",
      "7: back fine for 6",
      "9: finding unanswered for 8",
    ]);
  });
});

import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { describe, expect, test } from "@jest/globals";
import { MembersWorld } from "./members-world.ts";

/**
 * Replays testdata/group-members/*.txt, in the form of the other transcripts; the commands are told in its README. UPDATE_TRANSCRIPTS=1 writes
 * the outputs anew.
 */
const folder = new URL("../../testdata/group-members/", import.meta.url);
const update = process.env["UPDATE_TRANSCRIPTS"] === "1";

function replayText(source: string): string {
  const world = new MembersWorld();
  const out = source
    .trimEnd()
    .split(/\n\n+/)
    .map((block) => {
      const lines = block.split("\n");
      const at = lines.indexOf("----");
      const commands = at < 0 ? lines : lines.slice(0, at);
      world.lines = [];
      for (const line of commands) if (!line.startsWith("#")) world.run(line.trim());
      return commands.every((l) => l.startsWith("#")) ? block : [...commands, "----", ...world.lines].join("\n");
    });
  return `${out.join("\n\n")}\n`;
}

describe("members of groups, as transcripts", () => {
  const files = readdirSync(folder).filter((f) => f.endsWith(".txt"));
  test("there are transcripts", () => expect(files.length).toBeGreaterThanOrEqual(15));
  for (const file of files)
    test(file.replace(".txt", "").replaceAll("-", " "), () => {
      const path = new URL(file, folder);
      const wanted = readFileSync(path, "utf8");
      const got = replayText(wanted);
      if (update) writeFileSync(path, got);
      else expect(got).toBe(wanted);
    });
});

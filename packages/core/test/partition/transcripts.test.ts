import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { describe, expect, test } from "@jest/globals";
import { World } from "./world.ts";

/**
 * Replays testdata/partition/*.txt. A block is commands, a line of dashes, and what they print; a blank line ends it. UPDATE_TRANSCRIPTS=1
 * writes
 * the output anew: read the difference before it is committed.
 */
const folder = new URL("../../testdata/partition/", import.meta.url);
const update = process.env["UPDATE_TRANSCRIPTS"] === "1";

function replay(text: string): string {
  const world = new World();
  return (
    text
      .trimEnd()
      .split(/\n\n+/)
      .map((block) => {
        const lines = block.split("\n");
        const at = lines.indexOf("----");
        const commands = at < 0 ? lines : lines.slice(0, at);
        world.lines = [];
        for (const line of commands) if (!line.startsWith("#") && line.trim() !== "") world.run(line.trim());
        return commands.every((l) => l.startsWith("#")) ? commands.join("\n") : [...commands, "----", ...world.lines].join("\n");
      })
      .join("\n\n") + "\n"
  );
}

describe("partition machine, as transcripts", () => {
  const files = readdirSync(folder).filter((f) => f.endsWith(".txt"));
  test("there are transcripts", () => expect(files.length).toBeGreaterThan(15));
  for (const file of files)
    test(file.replace(".txt", "").replaceAll("-", " "), () => {
      const path = new URL(file, folder);
      const wanted = readFileSync(path, "utf8");
      const got = replay(wanted);
      if (update) writeFileSync(path, got);
      else expect(got).toBe(wanted);
    });
});

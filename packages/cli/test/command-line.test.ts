import { expect, test } from "@jest/globals";
import { commandName, typed } from "../src/command-line.ts";

test("a command to be typed next begins with the name that was typed now, or with the plain one where the PATH finds it", () => {
  const PATH = "/usr/bin:/opt/sluice/bin";
  expect(commandName({ PATH })).toBe("sluice");
  expect(commandName({ PATH, SLUICE_COMMAND: "bin/sluice" })).toBe("bin/sluice");
  expect(commandName({ PATH, SLUICE_COMMAND: "/opt/sluice/bin/sluice" })).toBe("sluice");
  expect(commandName({ PATH, SLUICE_COMMAND: "/home/me/sluice/bin/sluice" })).toBe("/home/me/sluice/bin/sluice");
  expect(commandName({ PATH, SLUICE_COMMAND: "../my tools/sluice" })).toBe("'../my tools/sluice'");
});
test("words are quoted as a shell needs it", () => {
  expect(typed("group", "reset", "it's $HOME", "--to", 7)).toBe("sluice group reset 'it'\\''s $HOME' --to 7");
  expect(typed("consume", "", "--from", "@2026-01-31T12:00:00Z")).toBe("sluice consume '' --from @2026-01-31T12:00:00Z");
});

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "@jest/globals";
import * as rules from "./rules.ts";

const root = join(import.meta.dirname, "../..");
const tracked = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], { cwd: root, encoding: "utf8" })
  .split("\n")
  .filter((path) => path !== "" && existsSync(join(root, path)));
const read = (path: string): rules.SourceFile => ({ path, text: readFileSync(join(root, path), "utf8") });
const sources = tracked.filter((p) => p.endsWith(".ts")).map(read);
const folders = ["packages", "services"].flatMap((parent) => readdirSync(join(root, parent)).map((name) => `${parent}/${name}`));
const show = (findings: readonly rules.Finding[]): string[] => findings.map((f) => `${f.path}:${f.line} ${f.message}`);

describe("repository rules", () => {
  test("imports follow the arrows", () => expect(show(rules.checkArrows(sources))).toEqual([]));
  test("no ambient clock, random, environment, console or process outside runtime", () =>
    expect(show(rules.checkBans(sources))).toEqual([]));
  test("the core is pure", () => expect(show(rules.checkPurity(sources))).toEqual([]));
  test("files and lines are small", () => expect(show(rules.checkSizes(sources))).toEqual([]));
  test("every package has a README that says what it never does", () => {
    const readmes = tracked.filter((p) => p.endsWith("README.md")).map(read);
    expect(show(rules.checkReadmes([...folders, "sim", "bench"], readmes))).toEqual([]);
  });
  test("no test is switched off, focused or empty", () => expect(show(rules.checkTests(sources))).toEqual([]));
  test("no marker of unfinished work", () => expect(show(rules.checkUnfinished(sources))).toEqual([]));
  test("the arrows know every folder", () => expect(show(rules.checkKnownFolders(folders))).toEqual([]));
});

// A rule that cannot fail proves nothing: each is fed a file that breaks it.
describe("canaries", () => {
  const file = (path: string, text: string): rules.SourceFile[] => [{ path, text }];
  test("an arrow the wrong way", () => {
    expect(rules.checkArrows(file("services/broker/src/a.ts", 'import { x } from "@sluice/proxy";'))).toHaveLength(1);
    expect(rules.checkArrows(file("packages/core/src/log/a.ts", 'import { x } from "@sluice/runtime";'))).toHaveLength(1);
    expect(rules.checkArrows(file("packages/link/src/a.ts", 'import { x } from "../../core/src/model/ids.ts";'))).toHaveLength(1);
  });
  test.each([
    "const t = Date.now();",
    "setTimeout(f, 1);",
    "const r = Math.random();",
    'const p = process.env["X"];',
    'console.log("x");',
    "process.exit(1);",
  ])("a banned call: %s", (text) => expect(rules.checkBans(file("services/broker/src/a.ts", text))).toHaveLength(1));
  test("an impure core", () => {
    expect(rules.checkPurity(file("packages/core/src/log/a.ts", 'import { readFileSync } from "node:fs";'))).not.toHaveLength(0);
    expect(rules.checkPurity(file("packages/core/src/log/a.ts", "Buffer.from(x);"))).toHaveLength(1);
  });
  test("a long file and a long line", () => {
    expect(rules.checkSizes(file("a.ts", "x\n".repeat(rules.FILE_LINES_MAX + 1)))).toHaveLength(1);
    expect(rules.checkSizes(file("a.ts", "x".repeat(rules.LINE_CHARS_MAX + 1)))).toHaveLength(1);
  });
  test("a README that is missing or promises nothing", () => {
    expect(rules.checkReadmes(["packages/a"], [])).toHaveLength(1);
    expect(rules.checkReadmes(["packages/a"], file("packages/a/README.md", "# a\n\nDoes things.\n"))).toHaveLength(1);
  });
  test("a test switched off, and one without an assertion", () => {
    expect(rules.checkTests(file("a.test.ts", ["test.", "skip", '("x", () => expect(1).toBe(1));'].join("")))).toHaveLength(1);
    expect(rules.checkTests(file("a.test.ts", 'test("x", () => {});'))).toHaveLength(1);
  });
  test("a marker of unfinished work", () => expect(rules.checkUnfinished(file("a.ts", ["// TO", "DO: later"].join("")))).toHaveLength(1));
  test("a folder nobody knows", () => expect(rules.checkKnownFolders(["packages/nobody"])).not.toHaveLength(0));
});

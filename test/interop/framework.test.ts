import { describe, expect, test } from "@jest/globals";
import { outcomesOf } from "./go/kgo.ts";
import { named } from "./javascript/platformatic-tests.ts";
import { statesOf } from "./librdkafka/runner.ts";
import { judge, type Outcome } from "./support/judge.ts";
import { compatibilityPage } from "./support/page.ts";
import { missingToolchains } from "./support/toolchains.ts";

const passed = (name: string): Outcome => ({ name, status: "passed" });
const failed = (name: string): Outcome => ({ name, status: "failed", detail: "boom" });
const baseline = { names: ["a", "b"], failed: ["c"], skipped: ["d"] };

describe("a suite is judged by its difference from a real Kafka", () => {
  test("the same is no difference, and more than the same neither", () => {
    expect(judge([passed("a"), passed("b"), failed("c")], baseline, {})).toEqual({ differences: [], known: [] });
    expect(judge([passed("a"), passed("b"), passed("c"), passed("d")], baseline, {}).differences).toEqual([]);
  });
  test("a failure, a test left out, one that was not run, and one that nobody measured are", () => {
    expect(judge([passed("a"), failed("b")], baseline, {}).differences).toEqual(["b: failed boom"]);
    expect(judge([passed("a"), { name: "b", status: "skipped" }], baseline, {}).differences).toEqual(["b: skipped"]);
    expect(judge([passed("a")], baseline, {}).differences).toEqual(["b: was not run"]);
    expect(judge([passed("a"), passed("b"), passed("e")], baseline, {}).differences).toEqual(["e: has no baseline"]);
    expect(judge([passed("a")], undefined, {}).differences).toHaveLength(1);
    expect(judge([], { names: [], failed: [], skipped: [] }, {}).differences).toEqual(["no test was run"]);
  });
  test("a reason on the list makes it known, but only where it does differ", () => {
    expect(judge([passed("a"), failed("b")], baseline, { b: "why" })).toEqual({ differences: [], known: [{ name: "b", reason: "why" }] });
    expect(judge([passed("a"), passed("b")], baseline, { b: "why" })).toEqual({ differences: [], known: [] });
    expect(judge([passed("a"), failed("b")], baseline, [[/^b/, "why"]]).known).toEqual([{ name: "b", reason: "why" }]);
    expect(judge([passed("a"), passed("b")], baseline, [[/^x/, "why"]]).differences).toHaveLength(1);
    expect(judge([passed("a"), passed("b")], baseline, { x: "why" }).differences).toHaveLength(1);
  });
  test("a short form is held against what it runs", () =>
    expect(judge([passed("a")], baseline, {}, (name) => name === "a").differences).toEqual([]));
});

test("events of Go's tests: what began and did not end has failed, and a failure has its words", () => {
  const events = [
    { Action: "run", Test: "A" },
    { Action: "output", Test: "A", Output: "a.go:1: no\n" },
    { Action: "run", Test: "A/b" },
    { Action: "pass", Test: "A/b" },
    { Action: "fail", Test: "A" },
    { Action: "run", Test: "C" },
    { Action: "skip", Test: "C" },
    { Action: "run", Test: "D" },
    { Action: "fail" },
  ] as const;
  expect(outcomesOf(events)).toEqual([
    { name: "A", status: "failed", detail: "a.go:1: no\n" },
    { name: "A/b", status: "passed" },
    { name: "C", status: "skipped" },
    { name: "D", status: "failed", detail: "did not end" },
  ]);
});

test("librdkafka's report, which is not always JSON", () => {
  const report =
    '"tests": {"<MAIN>": {"name": "<MAIN>", "state": "PASSED", "report": [ x" ] }, "0001_a": {"name": "0001_a", "state": "SKIPPED"';
  expect(statesOf(report)).toEqual(
    new Map([
      ["<MAIN>", "PASSED"],
      ["0001_a", "SKIPPED"],
    ]),
  );
});

test("tests of a file that have the same name are told apart", () =>
  expect(named("f", [passed("a"), failed("a"), passed("b")]).map(({ name, status }) => `${name} ${status}`)).toEqual([
    "f: a passed",
    "f: a (2) failed",
    "f: b passed",
  ]));

test("the page: a row for each suite, differences by reason", () => {
  const common = { client: "c", suite: "s", version: "1", date: "2026-01-02" };
  const page = compatibilityPage(
    [{ ...common, passed: 1, failed: ["b"], skipped: [], known: [{ name: "b", reason: "Not served:" }] }],
    [{ ...common, kafka: "4", passed: 2, failed: [], skipped: ["d"], names: ["a", "b"] }],
  );
  expect(page).toContain("| c | 1 | s | 2 | 1 | 2 of 3 | 1 | 2026-01-02 |");
  expect(page).toContain("### c, s\n\n- Not served: `b`\n");
});

test("a toolchain that is not there is told by name", () => {
  const lacksGo = (name: string): string | undefined => (name === "go" ? undefined : "/somewhere");
  expect(missingToolchains(["go", "java"], lacksGo)).toEqual(["Go"]);
});

import { describe, expect, test } from "@jest/globals";
import { Readable } from "node:stream";
import { type ErrorCode, SluiceError } from "@sluice/core/model";
import { CommandFailure, exitCodes, explain, UsageError } from "../src/exit.ts";
import { runProgram } from "../src/program.ts";
import type { Terminal } from "../src/terminal.ts";

async function run(...argv: string[]): Promise<{ code: number; out: string; err: string }> {
  let out = "";
  let err = "";
  const terminal: Terminal = {
    out: async (data) => void (out += typeof data === "string" ? data : Buffer.from(data).toString()),
    note: (text) => void (err += `${text}\n`),
    input: Readable.from([]),
    inputIsTerminal: false,
    outputIsTerminal: false,
    // Nothing listens there: no test reaches a server that happens to run.
    env: { SLUICE_ENDPOINT: "127.0.0.1:1" },
    interrupts: () => new AbortController().signal,
    flush: async () => undefined,
  };
  const code = await runProgram(argv, terminal);
  return { code, out, err };
}

describe("usage", () => {
  test("help goes to standard output and is no failure", async () => {
    const { code, out, err } = await run("produce", "--help");
    expect(code).toBe(exitCodes.ok);
    for (const flag of ["--file", "--jsonl", "--key-separator", "--header", "--rate", "--count", "--size", "--endpoint"])
      expect(out).toContain(flag);
    expect(err).toBe("");
  });
  test("a value that does not fit is named once", async () => {
    const { err } = await run("topic", "create", "t", "--partitions", "many");
    expect(err.split("\n")[0]).toBe('error: --partitions is "many"; it takes a whole number of 1 to 100000');
  });
  test("the version", async () => {
    expect(await run("--version")).toEqual({ code: 0, out: expect.stringMatching(/^sluice \d+\.\d+\.\d+\n$/), err: "" });
  });
  test.each([
    [["nonsense"], "unknown command"],
    [["topic", "create", "t"], "--partitions"],
    [["topic", "create", "t", "--partitions", "0"], "--partitions is"],
    [["topic", "create", "t", "--partitions", "1", "--config", "x"], "name=value"],
    [["topic", "create", "t", "--partitions", "1", "--config", "a=1", "--config", "a=2"], "given twice"],
    [["topic", "alter", "t"], "nothing to change"],
    [["topic", "alter", "t", "--partitions", "0"], "--partitions is"],
    [["topic", "alter", "t", "--config", "a=1", "--delete-config", "a"], "to --config and to --delete-config"],
    [["topic", "list", "-o", "xml"], "Allowed choices are table, json, jsonl"],
    [["produce"], "missing required argument"],
    [["topic", "create"], "missing required argument 'name', and required option '--partitions <n>'"],
    [["topic", "create", "--partitions", "3"], "error: missing required argument 'name'\n"],
    [["topic", "create", "x", "--partition", "3"], "error: unknown option '--partition'\n(Did you mean --partitions?)"],
    [["topic", "create", "x", "--partition=3"], "error: unknown option '--partition'\n(Did you mean --partitions?)"],
    [["group", "reset", "g", "--two", "earliest"], "error: unknown option '--two'\n(Did you mean --to?)"],
    [["produce", "t", "-x"], "error: unknown option '-x'\n"],
    [["produce", "t", "--endpoint", "http://127.0.0.1:7070"], "HOST:PORT[,HOST:PORT], without http://"],
    [["produce", "t", "--size", "1", "--jsonl"], "--size"],
    [["produce", "t", "--jsonl", "--key-separator", ":"], "--key-separator"],
    [["produce", "t", "--rate", "0"], "--rate is"],
    [["produce", "t", "--endpoint", "nowhere"], "HOST:PORT"],
    [["consume", "t", "--from", "there"], "--from is"],
    [["consume", "t", "--until", "latest"], "--until is"],
    [["consume", "t", "-o", "table"], "Allowed choices are value, jsonl"],
    [["consume", "t", "--group", "g", "--until", "end"], "--until"],
    [["consume", "t", "--group", "g", "--from", "7"], "sluice group reset g --topic t --to 7\n"],
    [["consume", "t", "--group", "g", "--from", "@5", "--endpoint", "h:1"], "sluice group reset g --topic t --to @5 --endpoint h:1\n"],
    [["group", "reset", "g"], "--to"],
    [["group", "reset", "g", "--to", "there"], "--to is"],
    [["group", "list", "--state", "Foo"], "It takes Empty"],
    [["consume", "t", "--group", ""], "--group is empty"],
    [["group", "describe"], "missing required argument"],
    [["cluster", "up"], "--dir"],
    [["cluster", "up", "--dir", "/nonexistent", "--stores", "2"], "--stores is"],
    [["cluster", "up", "--dir", "/nonexistent", "--object-store", "s3://b"], "SLUICE_OBJECT_STORE_ACCESS_KEY"],
    [["cluster", "kill", "--dir", "/nonexistent"], "missing required argument"],
    [["standalone", "--port-base", "70000"], "--port-base is"],
    // What a script has left unset is not the current folder.
    [["standalone", "--data", ""], "--data is empty"],
    [["cluster", "down", "--dir", ""], "--dir is empty"],
    [["cluster", "up", "--dir", "/nonexistent", "--object-store", ""], "--object-store is empty"],
    [["standalone", "--data", "/nonexistent", "--listen", "0.0.0.0"], "add --allow-unauthenticated"],
    [["standalone", "--data", "/nonexistent", "--listen", "::"], "--listen :: is open to others without authentication"],
    [["standalone", "--data", "/nonexistent", "--listen", "a b"], '--listen is "a b"'],
    [["standalone", "--data", "/nonexistent", "--listen", "", "--allow-unauthenticated"], '--listen is ""'],
  ])("%j is refused with exit code 2", async (argv, reason) => {
    const { code, out, err } = await run(...argv);
    expect(err).toContain(reason);
    expect(code).toBe(exitCodes.usage);
    expect(out).toBe("");
  });
});

test("a folder without a cluster is a failure that names the way out", async () => {
  const { code, err } = await run("cluster", "status", "--dir", "/nonexistent");
  expect(code).toBe(exitCodes.failure);
  expect(err).toContain("sluice cluster up --dir /nonexistent");
});

test("errors: the code, the hint, the exit code", () => {
  expect(explain(new SluiceError("TOPIC_EXISTS", "x is there"))).toEqual({
    text: "sluice: TOPIC_EXISTS: x is there\n  Choose another name, or use the existing topic (with --if-not-exists that is no error).",
    exitCode: exitCodes.failure,
  });
  expect(explain(new SluiceError("UNKNOWN_TOPIC", "no x")).text).toContain("sluice topic create NAME --partitions N");
  expect(explain(new SluiceError("UNKNOWN_TOPIC", "no x"), { endpoint: "h:1" }).text).toContain("sluice topic list --endpoint h:1;");
  const classic = new SluiceError("GROUP_NOT_FOUND", "group g has members of the classic protocol");
  expect(explain(classic).text).toContain("Stop those members first, or read as another group: --group NAME");
  expect(explain(new SluiceError("GROUP_NOT_FOUND", "no g")).text).toContain("sluice group list");
  expect(explain(new SluiceError("INVALID_CONFIG", "x")).exitCode).toBe(exitCodes.usage);
  expect(explain(new UsageError("x")).exitCode).toBe(exitCodes.usage);
  expect(explain(new CommandFailure("x", exitCodes.unacknowledged))).toEqual({ text: "sluice: x", exitCode: exitCodes.unacknowledged });
  expect(explain("text")).toEqual({ text: "sluice: text", exitCode: exitCodes.failure });
});

test("hints name the topic, and what was probably meant", () => {
  const about = { topic: "oders", endpoint: "h:1" };
  const hint = (code: ErrorCode, message = "x", details = {}) =>
    explain(new SluiceError(code, message, { details }), about).text.split("\n")[1];
  expect(hint("UNKNOWN_TOPIC", "x", { topics: "copy,orders" })).toBe(
    "  Did you mean orders? List them: sluice topic list --endpoint h:1; or create it: sluice topic create oders --partitions N --endpoint h:1",
  );
  expect(hint("UNKNOWN_TOPIC", "x", { topics: "" })).toMatch(/^ {2}List them: /);
  expect(hint("INVALID_CONFIG", 'unknown topic configuration key "retention.sm"')).toContain("Did you mean retention.ms? All keys");
  expect(hint("INVALID_CONFIG", "other")).toContain("docs/topics.md");
  expect(hint("MESSAGE_TOO_LARGE")).toContain("sluice topic alter oders --config max.message.bytes=BYTES --endpoint h:1");
  expect(hint("GROUP_NOT_FOUND")).toBe("  List them: sluice group list --endpoint h:1");
  expect(hint("NOT_OWNER")).toContain("No broker serves the partition. See which run: sluice status --endpoint h:1");
  expect(hint("UNREACHABLE", "h:1: the peer accepts connections but does not speak gRPC")).toContain("127.0.0.1:7070 by default");
  const before = new SluiceError("NOT_OWNER", "t/0: no broker serves the partition now");
  expect(explain(new SluiceError("TIMED_OUT", "no answer within 30 s", { cause: before })).text).toContain(
    "No broker serves the partition. See",
  );
  expect(explain(new SluiceError("CANCELLED", "x"))).toEqual({ text: "sluice: interrupted", exitCode: exitCodes.interrupted });
});
test("a batch that cannot be decoded: the command that goes on after it", () => {
  const details = { topic: "t", partition: "3", offset: "5", nextOffset: "8" };
  const hint = (more: Record<string, string> = {}, endpoint?: string) =>
    explain(new SluiceError("UNREADABLE_BATCH", "x", { details: { ...details, ...more } }), { endpoint }).text;
  expect(hint()).toMatch(/Go on after it: sluice consume t --partition 3 --from 8$/);
  expect(hint({}, "h:1")).toMatch(/sluice consume t --partition 3 --from 8 --endpoint h:1$/);
  expect(hint({ group: "my group" })).toMatch(/sluice group reset 'my group' --topic t --partition 3 --to 8$/);
});

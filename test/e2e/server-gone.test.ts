import { afterAll, beforeAll, describe, expect, test } from "@jest/globals";
import { join } from "node:path";
import { freePort, tempDir, type TempDir } from "@sluice/test-support";
import { type RunningCommand, sluice, startSluice } from "./support/sluice-command.ts";

/** The server is killed under commands that run: each says so within seconds, and ends in a bounded time when it is told to. */
const TELLS_WITHIN_MS = 15_000;
const ENDS_WITHIN_MS = 10_000;

let temp: TempDir;
let server: RunningCommand;
let endpoint = "";
const running: RunningCommand[] = [];

function begin(...args: string[]): RunningCommand {
  const command = startSluice(args, { endpoint });
  running.push(command);
  return command;
}
async function within(ms: number, command: RunningCommand, text: string): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no "${text}" within ${ms} ms: ${command.out()}${command.err()}`)), ms);
  });
  await Promise.race([command.until(text), late]).finally(() => clearTimeout(timer));
}

describe("a server that is gone", () => {
  beforeAll(async () => {
    temp = await tempDir("server-gone");
    const base = await freePort();
    endpoint = `127.0.0.1:${base}`;
    server = startSluice(["standalone", "--data", join(temp.path, "data"), "--port-base", String(base)]);
    await server.until("Sluice serves");
    for (const topic of ["read", "written"])
      expect(await sluice(["topic", "create", topic, "--partitions", "1"], { endpoint })).toMatchObject({ code: 0 });
  }, 60_000);
  afterAll(async () => {
    for (const command of [...running, server]) {
      command?.child.kill("SIGKILL");
      await command?.done;
    }
    await temp?.[Symbol.asyncDispose]();
  }, 30_000);

  test("is named by produce, consume and a group's consume; a commit at the end that failed is a failure", async () => {
    const write = begin("produce", "written", "--rate", "5", "--size", "10");
    const read = begin("consume", "read");
    const member = begin("consume", "read", "--group", "g");
    expect(await sluice(["produce", "read"], { endpoint, input: "first\nsecond\n" })).toMatchObject({ code: 0 });
    const isWritten = begin("consume", "written");
    await Promise.all([within(30_000, read, "second\n"), within(30_000, member, "second\n"), within(30_000, isWritten, "1.........\n")]);
    server.child.kill("SIGKILL");
    await server.done;
    await Promise.all([
      within(TELLS_WITHIN_MS, write, `no answer from ${endpoint}; waiting`),
      within(TELLS_WITHIN_MS, read, `no answer from ${endpoint}; waiting`),
      within(TELLS_WITHIN_MS, member, `no answer from ${endpoint}; waiting`),
    ]);
    expect(write.err()).toMatch(/^nothing was acknowledged for \d+ s: /m);
    expect(member.err()).toMatch(/^nothing was read for \d+ s: /m);
    const startMs = performance.now();
    for (const command of [write, read, member]) command.child.kill("SIGINT");
    const [written, seen, joined] = await Promise.all([write.done, read.done, member.done]);
    expect(performance.now() - startMs).toBeLessThan(ENDS_WITHIN_MS);
    expect(written.code).toBe(130);
    expect(seen).toMatchObject({ code: 0, err: expect.stringContaining("2 records in") });
    expect(joined.err).toContain("Ctrl-C again ends at once");
    expect(joined).toMatchObject({ code: 1, err: expect.stringContaining("the commit at the end failed") });
  }, 120_000);
});

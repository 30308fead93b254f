import { afterEach, describe, expect, test } from "@jest/globals";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { awaitState, processStart, processState, signalProcess } from "../src/cluster/pid.ts";

const children: ChildProcess[] = [];
async function sleeper(): Promise<{ child: ChildProcess; pid: number; start: string }> {
  const child = spawn("sleep", ["60"], { stdio: "ignore" });
  children.push(child);
  await once(child, "spawn");
  const pid = child.pid!;
  return { child, pid, start: (await processStart(pid))! };
}
afterEach(() => {
  for (const child of children.splice(0)) if (child.exitCode === null && child.signalCode === null) child.kill("SIGKILL");
});

describe("a process is signalled only while it is the one that was meant", () => {
  test("a recycled number: another start time means a stranger", async () => {
    const stranger = await sleeper();
    const remembered = { pid: stranger.pid, start: `${stranger.start}0` };
    expect(await processState(remembered)).toBe("gone");
    expect(await signalProcess(remembered, "SIGKILL")).toBe(false);
    expect(await processState(stranger)).toBe("running");
    expect(stranger.child.signalCode).toBeNull();
  });
  test("pause, resume, kill", async () => {
    const ref = await sleeper();
    expect(await signalProcess(ref, "SIGSTOP")).toBe(true);
    expect(await awaitState(ref, "paused", 5_000)).toBe(true);
    expect(await signalProcess(ref, "SIGCONT")).toBe(true);
    expect(await awaitState(ref, "running", 5_000)).toBe(true);
    expect(await signalProcess(ref, "SIGKILL")).toBe(true);
    expect(await awaitState(ref, "gone", 5_000)).toBe(true);
    expect(await signalProcess(ref, "SIGTERM")).toBe(false);
  });
  test("a wait that cannot come true ends", async () => {
    const ref = await sleeper();
    expect(await awaitState(ref, "paused", 50)).toBe(false);
    expect(await awaitState({ pid: ref.pid, start: "other" }, "running", 60_000)).toBe(false);
  });
  test("no process: the empty record of one that failed to start, process 1, no number", async () => {
    for (const ref of [
      { pid: 0, start: "" },
      { pid: 1, start: "" },
      { pid: -1, start: "" },
      { pid: Number.NaN, start: "" },
      { pid: process.pid, start: "" },
    ])
      expect(await processState(ref)).toBe("gone");
  });
});

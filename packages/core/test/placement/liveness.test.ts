import { describe, expect, test } from "@jest/globals";
import { instanceId, memberId } from "@sluice/core/model";
import { Liveness, type LivenessInput } from "@sluice/core/placement";

const limits = { suspectAfterMs: 900, deadAfterMs: 3_000, tickMs: 300, tickLateToleranceMs: 250, probeAgainMs: 1_000 };
/** Instances are named by one letter; `x` of a script line is the instance. */
function rig(names: string) {
  const liveness = new Liveness(limits);
  let nowMs = 0;
  const said: string[] = [];
  const feed = (input: LivenessInput): void => {
    for (const e of liveness.step(input, nowMs)) {
      said.push(e.kind === "probe" ? `probe ${e.instance}` : `${e.peer.instance} ${e.from}->${e.peer.state} ${e.cause}`);
    }
  };
  for (const x of names) feed({ kind: "registered", instance: instanceId(x), service: "broker", id: memberId(x) });
  return {
    state: (x: string) => liveness.peer(instanceId(x))?.state,
    beat: (...xs: string[]) => xs.forEach((x) => feed({ kind: "heartbeat", instance: instanceId(x) })),
    report: (x: string) => feed({ kind: "reported", instance: instanceId(x) }),
    probed: (x: string, result: "open" | "refused" | "timeout") => feed({ kind: "probed", instance: instanceId(x), result }),
    gone: (x: string) => feed({ kind: "gone", instance: instanceId(x) }),
    /** Ticks on time; those in `beating` send heartbeats before each. */
    pass(ms: number, beating = "") {
      const end = nowMs + ms;
      while (nowMs < end) {
        nowMs += limits.tickMs;
        for (const x of beating) feed({ kind: "heartbeat", instance: instanceId(x) });
        feed({ kind: "tick" });
      }
    },
    /** The whole process stands still, then ticks once. */
    pause(ms: number) {
      nowMs += ms;
      feed({ kind: "tick" });
    },
    taken: () => said.splice(0),
  };
}

describe("liveness", () => {
  test("three missed heartbeats make a member suspect and ask it; a refused connection kills it", () => {
    const r = rig("abc");
    r.beat("a", "b", "c");
    r.pass(600, "bc");
    expect(r.taken()).toEqual([]);
    r.pass(300, "bc");
    expect(r.taken()).toEqual(["a ALIVE->SUSPECT silent", "probe a"]);
    r.probed("a", "refused");
    expect(r.taken()).toEqual(["a SUSPECT->DEAD refused"]);
  });
  test("a paused member accepts connections: it is asked again and dies by long silence alone", () => {
    const r = rig("abc");
    r.beat("a", "b", "c");
    r.pass(900, "bc");
    r.probed("a", "open");
    expect(r.state("a")).toBe("SUSPECT");
    r.pass(1_200, "bc");
    r.probed("a", "open");
    expect(r.taken()).toEqual(["a ALIVE->SUSPECT silent", "probe a", "probe a"]);
    r.pass(900, "bc");
    expect(r.taken()).toEqual(["a SUSPECT->DEAD silent"]);
    r.beat("a");
    expect(r.taken()).toEqual(["a DEAD->ALIVE heartbeat"]);
  });
  test("a report alone changes nothing; what the own connect says counts", () => {
    const r = rig("ab");
    r.beat("a", "b");
    r.report("a");
    r.report("a");
    expect(r.taken()).toEqual(["probe a"]);
    r.probed("a", "open");
    expect(r.state("a")).toBe("ALIVE");
    r.report("a");
    r.probed("a", "refused");
    expect(r.taken()).toEqual(["probe a", "a ALIVE->DEAD refused"]);
    r.report("a");
    expect(r.taken()).toEqual([]);
  });
  test("no answer in time makes suspect, not dead", () => {
    const r = rig("a");
    r.report("a");
    r.probed("a", "timeout");
    expect(r.taken()).toEqual(["probe a", "a ALIVE->SUSPECT timeout"]);
  });
  test("a heartbeat during the probe outweighs its result", () => {
    const r = rig("ab");
    r.beat("a", "b");
    r.report("a");
    r.pass(300, "ab");
    r.probed("a", "refused");
    expect(r.state("a")).toBe("ALIVE");
  });
  test("refusals of a member that was heard afterwards no longer count: its address is wrong", () => {
    const r = rig("ab");
    r.beat("a", "b");
    r.report("a");
    r.probed("a", "refused");
    r.pass(300, "ab");
    expect(r.state("a")).toBe("ALIVE");
    r.report("a");
    r.probed("a", "refused");
    expect(r.state("a")).toBe("ALIVE");
  });
  test("silence of the majority is a fault here: nobody dies of it", () => {
    const r = rig("abc");
    r.beat("a", "b", "c");
    r.pass(6_000, "a");
    expect([r.state("b"), r.state("c")]).toEqual(["SUSPECT", "SUSPECT"]);
  });
  test("a pause of this process makes nobody suspect", () => {
    const r = rig("ab");
    r.beat("a", "b");
    r.pass(300, "ab");
    r.pause(10_000);
    expect(r.taken()).toEqual([]);
  });
  test("who was never heard is judged by lease and connects alone", () => {
    const r = rig("ab");
    r.pass(30_000, "b");
    expect(r.state("a")).toBe("ALIVE");
    r.gone("a");
    expect(r.state("a")).toBeUndefined();
  });
});

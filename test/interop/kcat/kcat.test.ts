import { expect } from "@jest/globals";
import { kcat, startKcat, type RunningKcat } from "@sluice/test-support";
import { until } from "../../e2e/support/cluster.ts";
import { runScenarios, type Scenario } from "../support/scenarios.ts";
import { defineSuite } from "../support/suite.ts";

const CODECS = ["none", "gzip", "snappy", "lz4", "zstd"] as const;
const numbers = (count: number, prefix = ""): string[] => Array.from({ length: count }, (_, i) => `${prefix}${i}`);
const lines = (text: string): string[] => text.split("\n").filter((line) => line !== "");

function scenarios(bootstrap: string): Record<string, Scenario> {
  async function ok(args: readonly string[], input = ""): Promise<string> {
    const { code, out, err } = await kcat(["-b", bootstrap, ...args], input);
    expect({ code, err }).toEqual({ code: 0, err: expect.not.stringMatching(/ERROR|%[0-4]\|(?!.*: retrying)/) });
    return out;
  }
  const produce = (topic: string, values: readonly string[], ...more: readonly string[]) =>
    ok(["-P", "-t", topic, ...more], `${values.join("\n")}\n`);
  const consume = async (topic: string, ...more: readonly string[]): Promise<string[]> =>
    lines(await ok(["-C", "-t", topic, "-e", "-q", ...more]));
  const member = (group: string, topic: string, ...more: readonly string[]): Promise<RunningKcat> =>
    startKcat(["-b", bootstrap, "-G", group, "-X", "auto.offset.reset=earliest", "-u", ...more, topic]);
  async function ended(running: RunningKcat): Promise<string[]> {
    running.child.kill("SIGTERM");
    return lines((await running.done).out);
  }
  const codecs = CODECS.map((codec): [string, Scenario] => [
    `codec ${codec}: produced in batches, read back`,
    async () => {
      await produce(`codec-${codec}`, numbers(300), "-z", codec, "-p", "0");
      expect(await consume(`codec-${codec}`, "-o", "beginning")).toEqual(numbers(300));
    },
  ]);
  return {
    "metadata: brokers, topics, partitions": async () => {
      await produce("listed", ["1"]);
      const listing = await ok(["-L"]);
      for (const address of bootstrap.split(",")) expect(listing).toContain(`at ${address}`);
      expect(listing).toContain('topic "listed" with 4 partitions');
      expect(await ok(["-L", "-J", "-t", "listed"])).toContain('"partition":3');
    },
    "a topic that nobody made": async () => {
      const { err } = await kcat(["-b", bootstrap, "-C", "-t", "nobodys", "-e", "-X", "allow.auto.create.topics=false"]);
      expect(err).toMatch(/unknown topic/i);
    },
    ...Object.fromEntries(codecs),
    ...Object.fromEntries(
      ["0", "1", "all"].map((acks): [string, Scenario] => [
        `acks ${acks}`,
        async () => {
          await produce(`acks-${acks}`, numbers(50), "-X", `acks=${acks}`, "-p", "0");
          await until("all are read", 10_000, async () => (await consume(`acks-${acks}`, "-o", "beginning")).length === 50);
        },
      ]),
    ),
    "keys, headers, empty and missing values": async () => {
      await produce("shapes", ["k1:v1", "k2:", ":v3"], "-K", ":", "-Z", "-H", "a=1", "-H", "b=", "-p", "0");
      const read = await consume("shapes", "-o", "beginning", "-f", "%k|%K|%s|%S|%h\n");
      expect(read).toEqual(["k1|2|v1|2|a=1,b=", "k2|2||-1|a=1,b=", "|-1|v3|2|a=1,b="]);
    },
    "one partition a key": async () => {
      await produce(
        "spread",
        numbers(200).map((value) => `${Number(value) % 10}:${value}`),
        "-K",
        ":",
      );
      const read = await consume("spread", "-o", "beginning", "-f", "%p %k\n");
      expect(read).toHaveLength(200);
      expect(new Set(read).size).toBe(10);
      expect(new Set(read.map((line) => line.split(" ")[0])).size).toBeGreaterThan(1);
    },
    "a record of 900 kB": async () => {
      const value = "x".repeat(900_000);
      await produce("large", [value], "-p", "0");
      expect(await consume("large", "-o", "beginning")).toEqual([value]);
    },
    "a record above the limit is refused": async () => {
      await produce("limited", ["1"]);
      const { code, err } = await kcat(
        ["-b", bootstrap, "-P", "-t", "limited", "-p", "0", "-X", "message.max.bytes=20000000"],
        `${"x".repeat(17_000_000)}\n`,
      );
      expect({ code, err }).toEqual({ code: 1, err: expect.stringMatching(/too large/i) });
    },
    "positions: an offset, from the end, a count, a range": async () => {
      await produce("positions", numbers(100), "-p", "0");
      expect(await consume("positions", "-p", "0", "-o", "95")).toEqual(["95", "96", "97", "98", "99"]);
      expect(await consume("positions", "-p", "0", "-o", "-2")).toEqual(["98", "99"]);
      expect(await consume("positions", "-p", "0", "-o", "10", "-c", "3")).toEqual(["10", "11", "12"]);
      expect(await consume("positions", "-p", "0", "-o", "end")).toEqual([]);
    },
    "times: query and read between two": async () => {
      await produce("times", ["early"], "-p", "0");
      await new Promise((resolve) => setTimeout(resolve, 50));
      const middle = Date.now();
      await produce("times", ["late"], "-p", "0", "-z", "gzip");
      expect(await ok(["-Q", "-t", `times:0:${middle}`])).toContain("times [0] offset 1");
      expect(await ok(["-Q", "-t", "times:0:-1", "-t", "times:1:-2"])).toMatch(/times \[0\] offset 2[^]*times \[1\] offset 0/);
      expect(await consume("times", "-p", "0", "-o", `s@${middle}`)).toEqual(["late"]);
      expect(await consume("times", "-p", "0", "-o", "s@0", "-o", `e@${middle}`)).toEqual(["early"]);
    },
    "idempotent producer": async () => {
      await produce("idempotent", numbers(500), "-X", "enable.idempotence=true", "-p", "0");
      expect(await consume("idempotent", "-o", "beginning")).toEqual(numbers(500));
    },
    "a reader that waits is given what comes": async () => {
      await produce("live", ["before"], "-p", "0");
      const reader = await startKcat(["-b", bootstrap, "-C", "-t", "live", "-o", "beginning", "-u", "-q"]);
      await until("the first", 15_000, () => reader.out().includes("before"));
      await produce("live", ["after"], "-p", "0");
      await until("the second", 5_000, () => reader.out().includes("after"));
      expect(await ended(reader)).toEqual(["before", "after"]);
    },
    "group: what was read and committed is not read again": async () => {
      await produce("resumed", numbers(40));
      const first = await member("resume", "resumed", "-q");
      await until("all are read", 20_000, () => lines(first.out()).length === 40);
      await ended(first);
      await produce("resumed", ["more"]);
      const second = await member("resume", "resumed", "-q");
      await until("the rest is read", 20_000, () => second.out().includes("more"));
      expect(await ended(second)).toEqual(["more"]);
    },
    "group: two members share, one takes over": async () => {
      await produce("shared", numbers(8));
      const one = await member("share", "shared");
      await until("one has all", 20_000, () => lines(one.out()).length === 8);
      const two = await member("share", "shared");
      let round = 0;
      await until("both read", 25_000, async () => {
        await produce("shared", numbers(20, `r${round++}-`));
        return lines(two.out()).length > 0;
      });
      const before = one.out();
      await ended(two);
      await until("one reads everything again", 25_000, async () => {
        const mark = `last${round++}-`;
        for (const partition of ["0", "1", "2", "3"]) await produce("shared", [mark + partition], "-p", partition);
        return lines(one.out()).filter((line) => line.startsWith(mark)).length === 4;
      });
      expect((await ended(one)).length).toBeGreaterThan(lines(before).length);
    },
    "group: cooperative assignment": async () => {
      await produce("cooperative", numbers(40));
      const strategy = ["-X", "partition.assignment.strategy=cooperative-sticky", "-q"];
      const one = await member("cooperate", "cooperative", ...strategy);
      await until("all are read", 20_000, () => lines(one.out()).length === 40);
      expect((await ended(one)).toSorted()).toEqual(numbers(40).toSorted());
    },
  };
}

defineSuite({
  client: "kcat",
  suite: "scenarios",
  version: "1.7.1 (librdkafka 2.0.2)",
  needs: [],
  target: { partitions: 4 },
  budgetMs: 240_000,
  run: ({ bootstrap }) => runScenarios(scenarios(bootstrap)),
});

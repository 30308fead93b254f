import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { describe, expect, test } from "@jest/globals";
import { crc32c } from "../log/support.ts";
import {
  committedOffsets,
  createShardState,
  decide,
  decodeGroupRecord,
  decodeShardSnapshot,
  encodeGroupRecord,
  encodeShardSnapshot,
  replay,
  type EncodedRecord,
  type GroupRecord,
} from "../../src/group/index.ts";

/**
 * Replays testdata/group/*.txt, in the form of the partition transcripts: commands, a line of dashes, what they print.
 *
 *   at MS                                   the clock
 *   commit GROUP TOPIC/N=OFFSET[@META] ...  decides; its records wait
 *   remove GROUP TOPIC/N ...                the same
 *   owner EPOCH MEMBER                      an owner record waits
 *   append | drop                           the waiting records are stored and replayed | are lost
 *   fetch GROUP [TOPIC[/N] ...]             what is committed
 *   restart                                 the state is thrown away and replayed from the log
 *   snapshot | restore                      the state is encoded | taken from the last snapshot, then the rest of the log is replayed
 */
const folder = new URL("../../testdata/group/", import.meta.url);
const update = process.env["UPDATE_TRANSCRIPTS"] === "1";
const utf8 = new TextEncoder();
const text = new TextDecoder();

class World {
  lines: string[] = [];
  #state = createShardState();
  #log: EncodedRecord[] = [];
  #waiting: GroupRecord[] = [];
  #snapshot: Uint8Array = new Uint8Array(0);
  #nowMs = 1_000;

  run(line: string): void {
    const [command, ...args] = line.split(" ") as [string, ...string[]];
    const group = args[0] as string;
    switch (command) {
      case "at":
        this.#nowMs = Number(args[0]);
        return;
      case "commit":
        return this.#decide({ kind: "commit", tenant: "default", group, offsets: args.slice(1).map(offsetOf) });
      case "remove":
        return this.#decide({ kind: "remove", tenant: "default", group, offsets: args.slice(1).map(partitionOf) });
      case "owner":
        this.#waiting.push({ kind: "owner", epoch: Number(args[0]), member: args[1] as string, instance: "i" });
        return;
      case "append":
        for (const record of this.#waiting.splice(0)) {
          const offset = this.#log.push(encodeGroupRecord(record)) - 1;
          this.#say(`stored ${offset}: ${show(record)}`);
        }
        return this.#replayRest();
      case "drop":
        return void this.#waiting.splice(0);
      case "fetch":
        return this.#fetch(group, args.slice(1));
      case "restart":
        this.#state = createShardState();
        return this.#replayRest();
      case "snapshot":
        this.#snapshot = encodeShardSnapshot(this.#state, 3, crc32c);
        return this.#say(`snapshot at ${this.#state.nextOffset}, ${this.#snapshot.length} bytes`);
      case "restore":
        this.#state = decodeShardSnapshot(this.#snapshot, 3, crc32c);
        return this.#replayRest();
      default:
        throw new Error(`no such command: ${line}`);
    }
  }

  #decide(request: Parameters<typeof decide>[1]): void {
    const { records, reply } = decide(this.#state, request, this.#nowMs);
    this.#waiting.push(...records);
    for (const record of records) this.#say(`record ${show(record)}`);
    this.#say(`reply ${reply.codes.map((c) => c ?? "ok").join(", ")}`);
  }
  #replayRest(): void {
    for (let at = this.#state.nextOffset; at < this.#log.length; at += 1) {
      const { key, value } = this.#log[at] as EncodedRecord;
      replay(this.#state, at, decodeGroupRecord(key, value));
    }
    const { epoch, member, nextOffset, groups, offsetCount } = this.#state;
    this.#say(`state: epoch ${epoch} ${member || "nobody"}, next ${nextOffset}, ${groups.size} groups, ${offsetCount} offsets`);
  }
  #fetch(group: string, topics: string[]): void {
    const wanted = new Map<string, Set<number>>();
    for (const t of topics) {
      const [topic, n] = t.split("/") as [string, string?];
      const set = wanted.get(topic) ?? new Set<number>();
      wanted.set(topic, n === undefined ? set : set.add(Number(n)));
    }
    const found = committedOffsets(this.#state, "default", group, topics.length === 0 ? undefined : wanted);
    for (const { topicId, partition, value } of found) this.#say(`${topicId}/${partition} = ${showValue(value)}`);
    if (found.length === 0) this.#say("nothing committed");
  }
  #say(line: string): void {
    this.lines.push(line);
  }
}

const partitionOf = (arg: string): { topicId: string; partition: number } => {
  const [topicId, n] = arg.split("/") as [string, string];
  return { topicId, partition: Number(n) };
};
function offsetOf(arg: string) {
  const [at, rest] = arg.split("=") as [string, string];
  const [offset, metadata] = rest.split("@") as [string, string?];
  return {
    ...partitionOf(at),
    offset: Number(offset),
    leaderEpoch: -1,
    metadata: utf8.encode(metadata === "LONG" ? "x".repeat(4097) : metadata),
  };
}
const showValue = (v: { offset: number; committedAtMs: number; metadata: Uint8Array }): string =>
  `${v.offset} at ${v.committedAtMs}${v.metadata.length === 0 ? "" : ` "${text.decode(v.metadata)}"`}`;
function show(record: GroupRecord): string {
  if (record.kind === "owner") return `owner ${record.member} epoch ${record.epoch}`;
  if (record.kind !== "offset") return `${record.kind} ${record.key.group}`;
  const { group, topicId, partition } = record.key;
  return `${group} ${topicId}/${partition} ${record.value === undefined ? "removed" : `= ${showValue(record.value)}`}`;
}

function run(source: string): string {
  const world = new World();
  const blocks = source.trimEnd().split(/\n\n+/);
  const out = blocks.map((block) => {
    const lines = block.split("\n");
    const at = lines.indexOf("----");
    const commands = at < 0 ? lines : lines.slice(0, at);
    world.lines = [];
    for (const line of commands) if (!line.startsWith("#")) world.run(line.trim());
    return commands.every((l) => l.startsWith("#")) ? block : [...commands, "----", ...world.lines].join("\n");
  });
  return `${out.join("\n\n")}\n`;
}

describe("group machine, as transcripts", () => {
  const files = readdirSync(folder).filter((f) => f.endsWith(".txt"));
  test("there are transcripts", () => expect(files.length).toBeGreaterThanOrEqual(4));
  for (const file of files)
    test(file.replace(".txt", "").replaceAll("-", " "), () => {
      const path = new URL(file, folder);
      const wanted = readFileSync(path, "utf8");
      const got = run(wanted);
      if (update) writeFileSync(path, got);
      else expect(got).toBe(wanted);
    });
});

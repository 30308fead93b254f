import { parseBatchHeader, writeBatchHeader } from "../../src/log/index.ts";
import { instanceId, memberId, segmentKey, timers, topicId } from "../../src/model/index.ts";
import type { PartitionState as RegisterState, SegmentRecord } from "../../src/model/index.ts";
import { brokenInvariant, brokenPipeline, createPartition, step } from "../../src/partition/index.ts";
import type { ControlFailure, Effect, Input, MetaTxnEffect, Mutants, Partition } from "../../src/partition/index.ts";
import { sum32 } from "../replica/support.ts";
import { Node } from "./node.ts";
import { show } from "./show.ts";

type Ask = Extract<Effect, { kind: "control" }>;
type Owned = { readonly broker: string };
type Meta = Extract<Effect, { kind: "metaGet" | "metaTxn" }>;
type Send = Extract<Effect, { kind: "sendAppend" }>;
type Words = readonly string[];

const optionsOf = (words: Words): Map<string, string> =>
  new Map(words.filter((w) => w.includes("=")).map((w) => [w.slice(0, w.indexOf("=")), w.slice(w.indexOf("=") + 1)]));
const namesOf = (words: Words): string[] => words.filter((w) => !w.includes("="));

/**
 * One partition machine among fake surroundings, driven by short commands; what it asks for waits until a command answers it. The commands
 * are
 * listed in testdata/partition/README.md.
 */
export class World {
  now = 1000;
  readonly nodes = new Map<string, Node>();
  readonly brokers = new Map<string, Partition>();
  broker = "b1";
  /** The metadata: the register, its revision, the segments. */
  register: RegisterState | undefined;
  revision = 0;
  readonly segments = new Map<string, SegmentRecord>();
  logStart = 0;
  readonly dead = new Set<string>();
  metas: (Meta & Owned)[] = [];
  /** A transaction that is still on its way after its answer was given up. */
  late: MetaTxnEffect[] = [];
  asks: (Ask & Owned)[] = [];
  sends: { node: string; send: Send; segmentNumber: number; broker: string }[] = [];
  lines: string[] = [];
  #requests = 0;
  readonly mutants: Partial<Mutants>;

  constructor(mutants: Partial<Mutants> = {}) {
    this.mutants = mutants;
  }

  get machine(): Partition {
    let p = this.brokers.get(this.broker);
    if (p === undefined) {
      p = createPartition({
        partition: { topicId: topicId("t"), partition: 0 },
        self: memberId(this.broker),
        instance: instanceId(`${this.broker}-i1`),
        generation: 0,
        noncePrefix: this.broker,
        seed: 1,
        timers,
        config: { segmentBytes: 1_000_000, segmentMs: 600_000, strictThreeCopies: false, producerExpiryMs: 86_400_000 },
        mutants: this.mutants,
      });
      this.brokers.set(this.broker, p);
    }
    return p;
  }

  feed(input: Input): void {
    const out: Effect[] = [];
    step(this.machine, input, this.now, out);
    const broken = brokenInvariant(this.machine) ?? brokenPipeline(this.machine);
    if (broken !== undefined) throw new Error(`invariant: ${broken}`);
    for (const e of out) {
      const line = show(e);
      if (line !== undefined) this.lines.push(line);
      if (e.kind === "metaGet" || e.kind === "metaTxn") this.metas.push({ ...e, broker: this.broker });
      else if (e.kind === "control") this.asks.push({ ...e, broker: this.broker });
      else if (e.kind === "sendAppend")
        for (const t of e.targets) this.sends.push({ node: t.replica.node, send: e, segmentNumber: t.segmentNumber, broker: this.broker });
    }
  }

  run(line: string): void {
    const [command = "", ...words] = line.split(/\s+/);
    const options = optionsOf(words);
    const names = namesOf(words);
    const table: Record<string, () => void> = {
      nodes: () => this.#setNodes(names),
      broker: () => (this.broker = names[0] ?? "b1"),
      acquire: () => {
        const force = options.get("force");
        this.feed({
          kind: "acquire",
          assignmentRevision: 1,
          ...(force === undefined ? {} : { forceInstance: instanceId(force) }),
          wallMs: 1_000_000 + this.now,
        });
      },
      release: () => {
        const target = names[0];
        this.feed({ kind: "release", ...(target === undefined ? {} : { target: memberId(target) }) });
      },
      meta: () => this.#answerMeta(names[0] ?? "ok"),
      arrive: () => this.#arrive(),
      answer: () => this.#answer(names, options),
      fail: () => this.#fail(names),
      store: () => this.#store(names, options),
      lose: () => (this.sends = this.sends.filter((s) => !names.includes(s.node))),
      append: () => this.#append(options),
      barrier: () => this.feed({ kind: "barrier", requestId: ++this.#requests, deadlineMs: this.now + 5000 }),
      link: () => this.feed({ kind: "link", node: memberId(names[0] ?? ""), up: names[1] === "up", reason: "reset" }),
      lease: () => this.feed({ kind: "lease", confirmedUntilMs: this.now + Number(names[0]) }),
      config: () =>
        this.feed({
          kind: "config",
          config: {
            ...this.machine.config,
            segmentBytes: Number(options.get("segmentBytes") ?? this.machine.config.segmentBytes),
            segmentMs: Number(options.get("segmentMs") ?? this.machine.config.segmentMs),
          },
        }),
      hint: () => this.feed({ kind: "hint" }),
      roll: () => this.feed({ kind: "roll", reason: "operator" }),
      wait: () => this.#wait(Number(names[0])),
      dies: () => this.dead.add(names[0] ?? this.broker),
      wipe: () => this.nodes.get(names[0] ?? "")?.wipe(),
      full: () => names.forEach((name) => this.nodes.get(name)?.setDiskFull(true)),
      room: () => names.forEach((name) => this.nodes.get(name)?.setDiskFull(false)),
      break: () => this.nodes.get(names[0] ?? "")?.breakDisk(),
      state: () => this.#showState(),
    };
    const run = table[command];
    if (run === undefined) throw new Error(`unknown command: ${line}`);
    run();
  }

  #setNodes(words: Words): void {
    for (const word of words) {
      const [name = "", mark] = word.split("!");
      let node = this.nodes.get(name);
      if (node === undefined) {
        node = new Node(name, `zone-${this.nodes.size % 3}`, this.nodes.size + 1);
        this.nodes.set(name, node);
      }
      node.suspect = mark === "suspect";
    }
    const wanted = words.map((w) => w.split("!")[0]);
    this.feed({ kind: "nodes", nodes: [...this.nodes.values()].filter((n) => wanted.includes(n.name)).map((n) => n.candidate) });
  }

  /** Jumps in steps, with a tick wherever the machine has asked for one. */
  #wait(ms: number): void {
    const end = this.now + ms;
    for (;;) {
      const due = this.machine.armedAtMs;
      if (due === 0 || due > end) break;
      this.now = Math.max(this.now, due);
      this.feed({ kind: "tick", wallMs: 1_000_000 + this.now });
    }
    this.now = end;
  }

  #apply(t: MetaTxnEffect): boolean {
    const holds = t.expectedRevision === (this.register === undefined ? 0 : this.revision);
    if (!holds) return false;
    this.register = t.state;
    this.revision++;
    for (const s of t.segments) this.segments.set(segmentKey(s.segment), s);
    return true;
  }
  #answerMeta(how: string): void {
    const m = this.metas.find((x) => x.broker === this.broker);
    if (m === undefined) throw new Error("no metadata call waits");
    this.metas.splice(this.metas.indexOf(m), 1);
    if (m.kind === "metaGet") {
      if (how === "failed") return this.feed({ kind: "metaGot", call: m.call, outcome: "failed" });
      const ownerAlive = this.register !== undefined && !this.dead.has(this.register.owner);
      const register = { state: this.register, modRevision: this.register === undefined ? 0 : this.revision };
      return this.feed({ kind: "metaGot", call: m.call, outcome: "ok", register, ownerAlive, logStart: this.logStart });
    }
    if (how === "lost") return this.feed({ kind: "metaTxnDone", call: m.call, outcome: "unknown" });
    if (how === "late") {
      this.late.push(m);
      return this.feed({ kind: "metaTxnDone", call: m.call, outcome: "unknown" });
    }
    const applied = this.#apply(m);
    if (how === "applied-lost") return this.feed({ kind: "metaTxnDone", call: m.call, outcome: "unknown" });
    const segment = m.readSegment === undefined ? undefined : this.segments.get(segmentKey(m.readSegment.segment));
    this.feed({
      kind: "metaTxnDone",
      call: m.call,
      outcome: applied ? "applied" : "compareFailed",
      register: { state: this.register, modRevision: this.register === undefined ? 0 : this.revision },
      ...(segment === undefined ? {} : { segment }),
      logStart: this.logStart,
    });
  }
  #arrive(): void {
    for (const t of this.late.splice(0)) this.lines.push(`  (the late transaction ${this.#apply(t) ? "applies" : "fails its compare"})`);
  }

  #take(names: Words): (Ask & Owned)[] {
    const taken = this.asks.filter((a) => a.broker === this.broker && (names.length === 0 || names.includes(a.to.node)));
    this.asks = this.asks.filter((a) => !taken.includes(a));
    return taken;
  }
  #answer(names: Words, options: Map<string, string>): void {
    for (const ask of this.#take(names)) {
      const node = this.nodes.get(ask.to.node);
      if (node === undefined) throw new Error(`no node ${ask.to.node}`);
      const answer = node.control(ask.body);
      const isLost = options.get("answers") === "lost";
      this.feed({ kind: "control", call: ask.call, result: isLost ? { kind: "failed", failure: "timeout", sent: true } : answer });
    }
  }
  #fail(names: Words): void {
    const failure = (names[1] ?? "timeout") as ControlFailure;
    for (const ask of this.#take([names[0] ?? ""]))
      this.feed({ kind: "control", call: ask.call, result: { kind: "failed", failure, sent: failure !== "refused" } });
  }

  /** Delivers what waits for these nodes; `keep=1` loses the answers. */
  #store(names: Words, options: Map<string, string>): void {
    const taken = this.sends.filter((s) => s.broker === this.broker && (names.length === 0 || names.includes(s.node)));
    this.sends = this.sends.filter((s) => !taken.includes(s));
    for (const { node, send, segmentNumber } of taken) {
      const { firstOffset, lastOffset, lac, barrier, epoch, base, payload, appendMs } = send;
      const request = { segmentNumber, epoch, base, firstOffset, lastOffset, lac, barrier, payload, appendMs };
      const answers = this.nodes.get(node)?.append(request) ?? [];
      if (options.get("answers") === "lost") continue;
      for (const a of answers) this.feed({ kind: "appended", node: memberId(node), ...a });
    }
  }

  #append(options: Map<string, string>): void {
    const count = Number(options.get("n") ?? 1);
    const producer = options.get("p");
    const [id = "-1", epochText = "0"] = (producer ?? "-1").split("/");
    const bytes = new Uint8Array(61 + Number(options.get("bytes") ?? 39)).fill(Number(options.get("tag") ?? 1), 61);
    writeBatchHeader(
      bytes,
      0,
      {
        baseOffset: 0,
        lastOffsetDelta: count - 1,
        totalBytes: bytes.length,
        partitionLeaderEpoch: -1,
        attributes: 0,
        baseTimestamp: 7,
        maxTimestamp: 7,
        producerId: Number(id),
        producerEpoch: producer === undefined ? -1 : Number(epochText),
        baseSequence: Number(options.get("seq") ?? -1),
        recordsCount: count,
      },
      sum32,
    );
    this.feed({
      kind: "append",
      requestId: ++this.#requests,
      batch: bytes,
      header: parseBatchHeader(bytes),
      expectedBaseOffset: Number(options.get("expect") ?? -1),
      fenceToken: Number(options.get("token") ?? -1),
      deadlineMs: this.now + Number(options.get("deadline") ?? 30_000),
      wallMs: 1_000_000 + this.now,
    });
  }

  #showState(): void {
    const p = this.machine;
    const s = this.register;
    this.lines.push(`${this.broker}: ${p.role.kind}, committed ${p.committed}, next ${p.nextOffset}`);
    if (s !== undefined) this.lines.push(`register: epoch ${s.epoch} ${s.phase} of ${s.owner}`);
    for (const [key, r] of this.segments) {
      const missing = r.missing === undefined ? "" : `, missing ${r.missing.map((m) => m.node).join(" ")}`;
      this.lines.push(`  ${key} ${r.base}..${r.end ?? ""} ${r.phase} on ${r.replicas.map((m) => m.node).join(" ")}${missing}`);
    }
  }
}

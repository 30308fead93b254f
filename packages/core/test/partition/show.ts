import { segmentKey } from "../../src/model/index.ts";
import type { SegmentRecord } from "../../src/model/index.ts";
import type { Effect } from "../../src/partition/index.ts";

const segment = (r: SegmentRecord): string => {
  const missing = r.missing === undefined ? "" : `, missing ${r.missing.map((m) => m.node).join(" ")}`;
  return `${segmentKey(r.segment)} ${r.base}..${r.end ?? ""} ${r.phase} on ${r.replicas.map((m) => m.node).join(" ")}${missing}`;
};

/** An effect as a line of a transcript; timers are not shown. */
export function show(e: Effect): string | undefined {
  switch (e.kind) {
    case "armTimer":
      return undefined;
    case "metaGet":
      return "? read the register";
    case "metaTxn": {
      const segments = e.segments.map((s) => `; ${segment(s)}`).join("");
      return `? write if revision ${e.expectedRevision}: epoch ${e.state.epoch} ${e.state.phase}${segments}`;
    }
    case "control": {
      const r = e.body.request;
      const key = segmentKey(r.segment);
      if (e.body.kind === "create") return `-> ${e.to.node}: create ${key} at ${e.body.request.base ?? "?"}`;
      if (e.body.kind === "fence") return `-> ${e.to.node}: fence ${key} by ${e.body.request.epoch}`;
      if (e.body.kind === "seal") return `-> ${e.to.node}: seal ${key} at ${e.body.request.end}`;
      if (e.body.kind === "recoveryRead") return `-> ${e.to.node}: read ${key} from ${e.body.request.from}`;
      if (e.body.kind === "recoveryAppend")
        return `-> ${e.to.node}: copy ${key} ${e.body.request.firstOffset}..${e.body.request.lastOffset}`;
      return `-> ${e.to.node}: rebuild ${key} ${e.body.request.base}..${e.body.request.end}`;
    }
    case "readProducers":
      return `? read producers of object ${e.object.key}`;
    case "sendAppend": {
      const to = e.targets.map((t) => t.replica.node).join(" ");
      if (e.payload.length === 0) return `-> ${to}: ${e.barrier > 0 ? `barrier ${e.barrier}` : "mark"}, committed ${e.lac}`;
      return `-> ${to}: append ${e.firstOffset}..${e.lastOffset}, committed ${e.lac}`;
    }
    case "reply": {
      const more = `${e.duplicate ? " (duplicate)" : ""}${e.cause === undefined ? "" : ` (${e.cause})`}${e.target === undefined ? "" : ` try ${e.target}`}`;
      return `reply ${e.requestId}: ${e.code ?? "stored"}${e.baseOffset < 0 ? "" : ` at ${e.baseOffset}`}${more}`;
    }
    case "barrierReply":
      return `reply ${e.requestId}: ${e.code ?? `latest is ${e.committed}`}`;
    case "committed":
      return `committed ${e.first}..${e.last}`;
    case "markTail":
      return `tail: epoch ${e.mark.epoch}, segment ${segmentKey(e.mark.segment)} at ${e.mark.segmentBase}, committed ${e.mark.committed}`;
    case "stepDown":
      return `step down: ${e.reason}`;
    case "reportSuspect":
      return `suspect ${e.node}: ${e.reason}`;
    case "alarm":
      return `ALARM ${e.cause}: ${e.message}`;
    case "log": {
      const { topic: _t, partition: _p, epoch: _e, ...fields } = e.fields;
      return `# ${e.event} ${Object.entries(fields)
        .map(([k, v]) => `${k}=${String(v)}`)
        .join(" ")}`.trimEnd();
    }
  }
}

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { say } from "@sluice/test-support";
import type { Kubernetes } from "./kubernetes.ts";

/** Lines that are shown; the files hold all. */
const SHOWN_MAX = 120;
const LINE_MAX = 240;
/** What led to a stall was logged a little before it. */
const BEFORE_MS = 1_500;

export interface Incident {
  readonly name: string;
  readonly topic: string;
  readonly partition: number;
  /** Wall clock, ms. */
  readonly fromMs: number;
  readonly toMs: number;
}
interface Line {
  readonly pod: string;
  readonly atMs: number;
  readonly text: string;
}

/** Writes the logs of all pods, of containers that ended too, into a folder that stays, and shows what they say of the stall. */
export async function keepLogs(cluster: Kubernetes, incident: Incident): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-stall-"));
  const lines: Line[] = [];
  for (const { name, restarts } of await cluster.pods()) {
    for (const previous of restarts > 0 ? [true, false] : [false]) {
      const text = await cluster.kubectl(["logs", name, ...(previous ? ["--previous"] : [])]).catch((error: unknown) => String(error));
      writeFileSync(join(folder, `${name}${previous ? ".before" : ""}.log`), text);
      for (const line of text.split("\n")) lines.push(...parsed(name, line));
    }
  }
  const named = lines.find(({ text }) => text.includes(`"topicName":"${incident.topic}"`));
  const id = /"topic":"([^"]+)"/.exec(named?.text ?? "")?.[1];
  const about = lines.filter((line) => isAbout(line, incident, id)).toSorted((a, b) => a.atMs - b.atMs);
  const shown = about.slice(0, SHOWN_MAX).map(({ pod, atMs, text }) => {
    const inMs = Math.round(atMs - incident.fromMs);
    return `${String(inMs).padStart(6)} ms  ${pod}  ${text.slice(0, LINE_MAX)}`;
  });
  const left = about.length > shown.length ? [`... ${about.length - shown.length} lines more`] : [];
  say([`${incident.name}: the pods' logs are in ${folder}; of ${incident.topic}/${incident.partition}:`, ...shown, ...left].join("\n"));
}

function parsed(pod: string, line: string): Line[] {
  const time = /"time":"([^"]+)"/.exec(line)?.[1];
  if (time === undefined) return [];
  const text = line.replace(/"(?:level|time|service|member|instance|version)":(?:"[^"]*"|\d+),?/g, "");
  return [{ pod, atMs: Date.parse(time), text }];
}
/** Within the time, and not about another partition. */
function isAbout({ atMs, text }: Line, { partition, fromMs, toMs }: Incident, topicId: string | undefined): boolean {
  if (atMs < fromMs - BEFORE_MS || atMs > toMs) return false;
  const ids = text.match(/(?<="(?:topic|topicId|partition)":")[0-9a-f-]{36}/g) ?? [];
  const number = /"partition":(?:"[^"]*\/)?(\d+)/.exec(text)?.[1];
  return ids.every((one) => one === topicId) && (number === undefined || Number(number) === partition);
}

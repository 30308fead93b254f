import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { againstKafka, full, writes } from "./form.ts";

/*
 * results/<client>-<suite>.json     how a suite last went against Sluice
 * baselines/<client>-<suite>.json   how the same went against a real Apache Kafka
 *
 * A suite is judged by the difference: what passes there and needs only what is served passes here.
 */
export const KAFKA_VERSION = "4.3.1";
const home = join(import.meta.dirname, "..");

export interface Known {
  readonly name: string;
  readonly reason: string;
}
export interface SuiteResult {
  readonly client: string;
  /** Of the client. */
  readonly version: string;
  readonly suite: string;
  /** How many passed. */
  readonly passed: number;
  readonly failed: readonly string[];
  readonly skipped: readonly string[];
  /** Those of `failed`, or `skipped` here alone, that are meant to differ. */
  readonly known: readonly Known[];
}
export interface Result extends SuiteResult {
  readonly date: string;
}
export interface Baseline extends Omit<SuiteResult, "known"> {
  readonly kafka: string;
  readonly date: string;
  /** Names of those that passed: a test that is not run at all is a difference too. */
  readonly names: readonly string[];
}

const file = (folder: "results" | "baselines", client: string, suite: string): string =>
  join(home, folder, `${client}-${suite.replaceAll(" ", "-")}.json`);
const today = (): string => new Date().toISOString().slice(0, 10);
function write(path: string, value: object): void {
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, `${JSON.stringify(value, undefined, 2)}\n`);
}

/** Keeps how a whole suite went, when this run is to write (`--write`); the short form is never kept. */
export function record(result: SuiteResult): void {
  if (writes && full && !againstKafka) write(file("results", result.client, result.suite), { ...result, date: today() } satisfies Result);
}
export function recordBaseline(result: Omit<SuiteResult, "known" | "passed"> & { readonly names: readonly string[] }): void {
  if (!writes || !full || !againstKafka) return;
  const { names, ...rest } = result;
  const baseline: Baseline = { ...rest, kafka: KAFKA_VERSION, passed: names.length, names: names.toSorted(), date: today() };
  write(file("baselines", result.client, result.suite), baseline);
}

export function baselineOf(client: string, suite: string): Baseline | undefined {
  const path = file("baselines", client, suite);
  return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as Baseline) : undefined;
}
export function readAll<T>(folder: "results" | "baselines"): T[] {
  const path = join(home, folder);
  if (!existsSync(path)) return [];
  const names = readdirSync(path).filter((name) => name.endsWith(".json"));
  return names.toSorted().map((name) => JSON.parse(readFileSync(join(path, name), "utf8")) as T);
}

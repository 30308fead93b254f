import { checkFinalLog } from "./checkers/final.ts";
import { LatestAsker } from "./workload/latest-asker.ts";
import { Cluster } from "./world/cluster.ts";
import { FullDisks } from "./world/full-disks.ts";
import { Nemesis } from "./world/nemesis.ts";
import { drawOptions } from "./world/options.ts";
import { Rng } from "./world/random.ts";

export interface RunResult {
  readonly seed: number;
  readonly violations: readonly string[];
  /** Over every traced event and its time: equal for equal seeds. */
  readonly hash: string;
  readonly events: number;
  readonly acknowledged: number;
  readonly reads: number;
  readonly latest: number;
  readonly latestByRegister: number;
  readonly epochs: number;
  readonly segments: number;
}
export interface RunSettings {
  readonly mutant?: string | undefined;
  readonly short?: boolean;
  /** False: no questions for the latest offset and no full disks, so that a seed means what it meant before there were any. */
  readonly latest?: boolean;
  readonly onLine?: ((line: string) => void) | undefined;
}
const SETTLE_MS = 1500;
const CONVERGE_MS = 4000;
/** What came later draws from a second stream: the first one stays as it was. */
const OWN_CHANCE = 0x2545_f491;

/** One run: chaos by the seed, then everything is healed and must converge, then the log is read from every copy and checked. */
export function run(seed: number, settings: RunSettings = {}): RunResult {
  const rng = new Rng(seed);
  const options = drawOptions(rng, settings.short === true);
  let hash = 0x811c_9dc5;
  let events = 0;
  let clock = (): number => 0;
  const trace = (line: string): void => {
    events++;
    const text = `${clock().toFixed(3)} ${line}`;
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x0100_0193);
    settings.onLine?.(text);
  };
  const cluster = new Cluster(rng, options, settings.mutant, trace);
  const { scheduler, history } = cluster;
  clock = () => scheduler.now;
  const broken = (): boolean => history.violations.length > 0;
  try {
    const nemesis = new Nemesis(cluster, options);
    const own = new Rng(seed ^ OWN_CHANCE);
    if (settings.latest !== false && own.chance(0.6)) new LatestAsker(own, cluster).start();
    const disks = settings.latest !== false && own.chance(0.4) ? new FullDisks(own, cluster) : undefined;
    scheduler.run(options.chaosMs, broken);
    nemesis.heal();
    disks?.heal();
    trace("healed");
    scheduler.run(scheduler.now + SETTLE_MS, broken);
    for (const p of cluster.producers) p.stopped = true;
    const done = (): boolean => broken() || cluster.producers.every((p) => p.idle);
    const deadline = scheduler.now + CONVERGE_MS;
    scheduler.run(deadline, done);
    if (!broken()) finish(cluster, scheduler.now >= deadline);
  } catch (e) {
    history.violation(`exception: ${e instanceof Error ? (e.stack ?? e.message) : String(e)}`);
  }
  return {
    seed,
    violations: history.violations,
    hash: (hash >>> 0).toString(16).padStart(8, "0"),
    events,
    acknowledged: history.acked.length,
    reads: history.reads,
    latest: history.latest,
    latestByRegister: history.latestByRegister,
    epochs: cluster.metadata.state?.epoch ?? 0,
    segments: cluster.metadata.segments.size,
  };
}

function finish(cluster: Cluster, late: boolean): void {
  const { history, brokers, metadata, nodes, scheduler } = cluster;
  if (late)
    history.violation(
      `liveness: ${cluster.producers.filter((p) => !p.idle).length} producers still wait; ` +
        brokers.map((b) => `${b.name} ${b.machine.role.kind}`).join(", "),
    );
  scheduler.run(scheduler.now + 300);
  const owner = brokers.find((b) => b.machine.role.kind === "serving" && b.instance === metadata.state?.ownerInstance);
  if (owner === undefined) return history.violation("liveness: nobody serves the partition");
  checkFinalLog(history, metadata, nodes, owner.machine.committed);
}

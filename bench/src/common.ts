import { readdirSync } from "node:fs";
import { cpus, release, totalmem } from "node:os";
import { clusterUp } from "@sluice/cli";
import { systemClock } from "@sluice/runtime";

export function option(args: readonly string[], name: string, fallback: string): string {
  const at = args.indexOf(`--${name}`);
  return at < 0 ? fallback : (args[at + 1] ?? fallback);
}

/** Live bytes of a node's journal below which what was deleted is gone. */
const QUIET_BYTES = 32 * 1024 * 1024;
const QUIET_WAIT_MS = 30_000;
/** After a topic was deleted: until its space has been given back. `metrics`: addresses of the storage nodes. */
export async function journalsQuiet(metrics: readonly string[]): Promise<void> {
  const until = Date.now() + QUIET_WAIT_MS;
  for (const address of metrics) {
    for (;;) {
      const text = await (await fetch(`http://${address}/metrics`)).text();
      const live = Number(/^sluice_store_journal_live_bytes(?:\{[^}]*\})? (\S+)$/m.exec(text)?.[1]);
      if (live < QUIET_BYTES) break;
      if (Date.now() > until) throw new Error(`the journal of ${address} still holds ${live} bytes of a deleted topic`);
      await systemClock.sleep(200);
    }
  }
}

/** The same for a real Kafka: `folders` are the `log.dirs` of its brokers. */
export async function deletedLogsGone(folders: readonly string[]): Promise<void> {
  const until = Date.now() + QUIET_WAIT_MS;
  const left = (): string[] => folders.flatMap((folder) => readdirSync(folder).filter((name) => name.endsWith("-delete")));
  for (let some = left(); some.length > 0; some = left()) {
    if (Date.now() > until) throw new Error(`${some.length} logs of a deleted topic are still there: ${some[0]}`);
    await systemClock.sleep(200);
  }
}

export const machine = (): string =>
  `${cpus().length} x ${cpus()[0]?.model.trim() ?? "unknown"}, ${Math.round(totalmem() / 2 ** 30)} GiB, Linux ${release()}, Node.js ${process.version}`;

/** The smallest cluster that keeps the promise: one of each, three storage nodes in three zones, no object store. */
export const benchCluster = (dir: string): ReturnType<typeof clusterUp> =>
  clusterUp({ dir, objectStore: "none", proxies: 1, brokers: 1, stores: 3, controllers: 1, coordinators: 1, zones: 3 });

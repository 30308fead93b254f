import { setTimeout as sleep } from "node:timers/promises";
import type { Kubernetes } from "./kubernetes.ts";

/** The kernel keeps a connection that this side ended for a minute (TIME_WAIT): none is missed between two looks. */
const EVERY_MS = 2_000;
const PRINT_TABLES = 'for (const f of ["tcp", "tcp6"]) process.stdout.write(require("fs").readFileSync("/proc/net/" + f, "utf8"))';

/** `0100007F:1B9E` of /proc/net/tcp, or the same at the end of an IPv4 address in /proc/net/tcp6, as a dotted address. */
export function ipv4Of(hex: string): string {
  const [address = ""] = hex.split(":");
  return (address.slice(-8).match(/../g) ?? [])
    .toReversed()
    .map((byte) => Number.parseInt(byte, 16))
    .join(".");
}

/** Addresses at the far ends of the connections in a pod's tables of sockets; listening sockets have none. */
export const farEnds = (tables: string): string[] =>
  tables
    .split("\n")
    .map((line) => line.trim().split(/\s+/))
    .filter(([slot = "", , far = ""]) => /^\d+:$/.test(slot) && !/^0+:/.test(far))
    .map(([, , far = ""]) => ipv4Of(far));

export interface Connections {
  /** Pods of the component that were seen. */
  readonly pods: number;
  /** Connections from one pod of the component to another, `from → to`. */
  readonly among: readonly string[];
  /** Pods of `others` that pods of the component were connected to: proof that the look sees connections at all. */
  readonly others: number;
}

/** Looks at the sockets of all pods of `component`, also those that come and go, while `work` runs. */
export async function connectionsWhile(
  cluster: Kubernetes,
  component: string,
  others: string,
  work: () => Promise<void>,
): Promise<Connections> {
  const seen = new Map<string, Set<string>>();
  const mates = new Set<string>();
  const over = new AbortController();
  const look = async (): Promise<void> => {
    const [own, far] = await Promise.all([cluster.pods(component), cluster.pods(others)]);
    for (const { ip } of far) mates.add(ip);
    for (const { name, ip } of own) {
      if (ip === "") continue;
      const ends = seen.get(ip) ?? seen.set(ip, new Set()).get(ip);
      // A pod that starts or goes has no shell to ask; it is asked again at the next look, if it is still there.
      const tables = await cluster.kubectl(["exec", name, "--", "node", "-e", PRINT_TABLES]).catch(() => "");
      for (const end of farEnds(tables)) ends?.add(end);
    }
  };
  const looks = (async () => {
    for (; !over.signal.aborted; await sleep(EVERY_MS)) await look();
  })();
  try {
    await work();
    await look();
  } finally {
    over.abort();
    await looks;
  }
  const among = [...seen].flatMap(([from, ends]) => [...ends].filter((to) => seen.has(to) && to !== from).map((to) => `${from} → ${to}`));
  const reached = new Set([...seen.values()].flatMap((ends) => [...ends].filter((to) => mates.has(to))));
  return { pods: seen.size, among, others: reached.size };
}

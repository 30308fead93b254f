import { execFile } from "node:child_process";
import { connect } from "node:net";
import { dirname } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ensureHelm, findProgram, say } from "@sluice/test-support";

const CALL_TIMEOUT_MS = 200_000;
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024;

export interface PodInfo {
  readonly name: string;
  readonly node: string;
  readonly ip: string;
  readonly component: string;
  readonly ready: boolean;
  readonly restarts: number;
}
interface PodObject {
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>>; readonly deletionTimestamp?: string };
  readonly spec: { readonly nodeName?: string };
  readonly status: {
    readonly podIP?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
    readonly containerStatuses?: readonly { readonly restartCount: number }[];
  };
}

/** One namespace of the cluster that KUBECONFIG names, seen through kubectl and helm. */
export class Kubernetes {
  readonly namespace: string;
  /** For what the tests start: kubectl, helm and this Node.js on the PATH. */
  readonly environment: NodeJS.ProcessEnv;

  private constructor(namespace: string, environment: NodeJS.ProcessEnv) {
    this.namespace = namespace;
    this.environment = environment;
  }
  /** Throws, naming what is missing. */
  static async open(namespace: string): Promise<Kubernetes> {
    if (process.env["KUBECONFIG"] === undefined) throw new Error("KUBECONFIG is not set: start this with npm run test:kubernetes");
    if (findProgram("kubectl") === undefined) throw new Error("the tests on Kubernetes need kubectl, which is not on the PATH");
    const helm = await ensureHelm();
    const path = [dirname(helm.path), dirname(process.execPath), process.env["PATH"] ?? ""].join(":");
    return new Kubernetes(namespace, { ...process.env, PATH: path, HELM_NAMESPACE: namespace });
  }
  in(namespace: string): Kubernetes {
    return new Kubernetes(namespace, { ...this.environment, HELM_NAMESPACE: namespace });
  }

  kubectl(args: readonly string[], input?: string): Promise<string> {
    return this.run("kubectl", ["--namespace", this.namespace, ...args], input);
  }
  helm(args: readonly string[]): Promise<string> {
    return this.run("helm", args);
  }
  run(program: string, args: readonly string[], input?: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const child = execFile(
        program,
        [...args],
        { env: this.environment, timeout: CALL_TIMEOUT_MS, maxBuffer: OUTPUT_BYTES_MAX },
        (error, stdout, stderr) => {
          if (error === null) resolve(stdout);
          else reject(new Error(`${program} ${args.join(" ")}: ${error.message}\n${stdout.slice(-2_000)}${stderr.slice(-2_000)}`));
        },
      );
      if (input !== undefined) child.stdin?.end(input);
    });
  }

  /** Pods that are not on their way out. */
  async pods(component?: string): Promise<PodInfo[]> {
    const selector = component === undefined ? [] : ["--selector", `app.kubernetes.io/component=${component}`];
    const { items } = JSON.parse(await this.kubectl(["get", "pods", "--output", "json", ...selector])) as { items: PodObject[] };
    return items
      .filter((pod) => pod.metadata.deletionTimestamp === undefined)
      .map((pod) => ({
        name: pod.metadata.name,
        node: pod.spec.nodeName ?? "",
        ip: pod.status.podIP ?? "",
        component: pod.metadata.labels?.["app.kubernetes.io/component"] ?? "",
        ready: pod.status.conditions?.some((c) => c.type === "Ready" && c.status === "True") ?? false,
        restarts: (pod.status.containerStatuses ?? []).reduce((sum, c) => sum + c.restartCount, 0),
      }));
  }
  /** Waits until there are `count` pods, all ready; any number when it is not given. */
  async untilReady(timeoutMs: number, component?: string, count?: number): Promise<void> {
    for (const endMs = performance.now() + timeoutMs; ; await sleep(500)) {
      const pods = await this.pods(component);
      if (pods.length > 0 && pods.every((pod) => pod.ready) && (count === undefined || pods.length === count)) return;
      if (performance.now() < endMs) continue;
      await this.tell();
      throw new Error(`not within ${timeoutMs} ms: ${count ?? "all"} ready of ${component ?? "all"}: ${JSON.stringify(pods)}`);
    }
  }
  /** Value of a gauge of every pod of a component, as each of them tells it. */
  async gauges(component: string, metric: string): Promise<number[]> {
    return Promise.all(
      (await this.pods(component)).map(async ({ ip }) => {
        const text = await (await fetch(`http://${ip}:9600/metrics`)).text();
        const line = text.split("\n").find((one) => one.startsWith(`${metric}{`) || one.startsWith(`${metric} `));
        return Number(line?.slice(line.lastIndexOf(" ") + 1) ?? Number.NaN);
      }),
    );
  }
  rolledOut(workload: string): Promise<string> {
    return this.kubectl(["rollout", "status", workload, "--timeout=180s"]);
  }
  /** For a test that failed: what there is, and the last lines of every pod. */
  async tell(): Promise<void> {
    const show = async (args: readonly string[]): Promise<void> => say(await this.kubectl(args).catch((error: unknown) => String(error)));
    await show(["get", "pods", "--output", "wide"]);
    for (const { name } of await this.pods().catch(() => [])) {
      say(`--- ${name}`);
      await show(["logs", name, "--tail=8"]);
    }
  }
}

/** True when a connection is accepted. */
export function accepts(host: string, port: number, timeoutMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: timeoutMs });
    const end = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.once("connect", () => end(true));
    socket.once("timeout", () => end(false));
    socket.once("error", () => end(false));
  });
}

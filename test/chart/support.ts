import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ensureHelm, ensureKubernetesValidate } from "@sluice/test-support";

export const chartFolder = join(import.meta.dirname, "../../deploy/helm/sluice");
export const valuesFile = (name: string): string => join(import.meta.dirname, "values", `${name}.yaml`);

export interface Metadata {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
}
export type Probe = Readonly<Record<string, unknown>>;
export interface Container {
  readonly name: string;
  readonly image: string;
  readonly imagePullPolicy: string;
  readonly command?: readonly string[];
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly env?: readonly { readonly name: string; readonly value?: string; readonly valueFrom?: unknown }[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly resources: { readonly requests: Record<string, string>; readonly limits: Record<string, string> };
  readonly startupProbe?: Probe;
  readonly readinessProbe?: Probe;
  readonly livenessProbe?: Probe;
  readonly lifecycle?: { readonly preStop: { readonly sleep: { readonly seconds: number } } };
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string; readonly readOnly?: boolean }[];
}
export interface PodSpec {
  readonly serviceAccountName?: string;
  readonly automountServiceAccountToken?: boolean;
  readonly enableServiceLinks?: boolean;
  readonly terminationGracePeriodSeconds: number;
  readonly securityContext: Readonly<Record<string, unknown>>;
  readonly initContainers?: readonly Container[];
  readonly containers: readonly Container[];
  readonly volumes?: readonly Readonly<Record<string, unknown>>[];
  readonly topologySpreadConstraints?: readonly { readonly topologyKey: string; readonly whenUnsatisfiable: string }[];
}
interface Labels {
  readonly matchLabels: Readonly<Record<string, string>>;
}
/** An object of Kubernetes, as far as the tests look. */
export interface Item {
  readonly kind: string;
  readonly metadata: Metadata;
  readonly automountServiceAccountToken?: boolean;
  readonly data?: Readonly<Record<string, string>>;
  readonly spec: PodSpec & {
    readonly type?: string;
    readonly replicas: number;
    readonly selector: Labels & Readonly<Record<string, string>>;
    readonly ports: readonly { readonly name: string; readonly port: number; readonly targetPort: string }[];
    readonly template: { readonly metadata: Metadata; readonly spec: PodSpec };
  };
}
export interface Pod {
  readonly of: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly spec: PodSpec;
}
/** Every pod that the objects lead to. */
export const podsOf = (items: readonly Item[]): Pod[] =>
  items.flatMap((item) => {
    const of = `${item.kind} ${item.metadata.name}`;
    if (item.kind === "Pod") return [{ of, labels: item.metadata.labels, spec: item.spec }];
    if ("template" in (item.spec ?? {})) return [{ of, labels: item.spec.template.metadata.labels, spec: item.spec.template.spec }];
    return [];
  });

interface Outcome {
  readonly ok: boolean;
  readonly out: string;
  readonly err: string;
}
function call(program: string, args: readonly string[], input?: string): Outcome {
  const run = spawnSync(program, args, {
    encoding: "utf8",
    timeout: 60_000,
    maxBuffer: 64 * 1024 * 1024,
    ...(input !== undefined && { input }),
  });
  return { ok: run.status === 0, out: run.stdout, err: run.stderr };
}

/** The chart, with the tools to look at it. */
export class Chart {
  readonly #helm: string;
  readonly #python: string;
  private constructor(helm: string, python: string) {
    this.#helm = helm;
    this.#python = python;
  }
  /** Brings the tools; throws, naming what is missing. */
  static async open(): Promise<Chart> {
    return new Chart((await ensureHelm()).path, (await ensureKubernetesValidate()).path);
  }
  lint(values: string): Outcome {
    return call(this.#helm, ["lint", "--strict", chartFolder, "--values", valuesFile(values)]);
  }
  /** As `helm template`; `set` are `key=value`, dots of a key escaped. */
  template(values: string, set: readonly string[] = []): Outcome {
    return call(this.#helm, ["template", "rel", chartFolder, "--values", valuesFile(values), ...set.flatMap((one) => ["--set-json", one])]);
  }
  render(values: string, set: readonly string[] = []): string {
    const { ok, out, err } = this.template(values, set);
    if (!ok) throw new Error(err);
    return out;
  }
  items(text: string): Item[] {
    const { ok, out, err } = call(this.#python, [join(import.meta.dirname, "documents.py")], text);
    if (!ok) throw new Error(err);
    return JSON.parse(out) as Item[];
  }
  /** Judged by the schemas of that version of Kubernetes, unknown fields refused. */
  validate(text: string, version: string): Outcome {
    const folder = mkdtempSync(join(tmpdir(), "sluice-chart-"));
    try {
      writeFileSync(join(folder, "all.yaml"), text);
      return call(this.#python, ["-m", "kubernetes_validate", "-k", version, "--strict", join(folder, "all.yaml")]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  }
}

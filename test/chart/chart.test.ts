import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "@jest/globals";
import { Chart, chartFolder, podsOf, type Container, type Item, type Pod } from "./support.ts";

const cases = ["minimal", "all-on", "trial"] as const;
/** What charts have done that was regretted: values that differ at each render, jobs that cannot be changed. */
const BANNED = /\b(rand\w+|genPrivateKey|genCA|genSelfSignedCert|genSignedCert|uuidv4|now|htpasswd|lookup|derivePassword|bcrypt)\b/;

let chart: Chart;
const texts = new Map<string, string>();
const rendered = new Map<string, Item[]>();
beforeAll(async () => {
  chart = await Chart.open();
  for (const name of cases) {
    texts.set(name, chart.render(name));
    rendered.set(name, chart.items(texts.get(name)!));
  }
}, 600_000);
const itemsOf = (name: string): Item[] => rendered.get(name)!;
const kindsOf = (name: string, kind: string): Item[] => itemsOf(name).filter((item) => item.kind === kind);

describe.each(cases)("values %s", (name) => {
  test("pass helm's lint", () => {
    const { ok, out, err } = chart.lint(name);
    expect({ ok, said: ok ? "" : out + err }).toEqual({ ok: true, said: "" });
  });
  test("render the same twice", () => expect(chart.render(name)).toBe(texts.get(name)));
  test.each(["1.30", "1.37"])("fit Kubernetes %s, unknown fields refused", (version) => {
    const { ok, out, err } = chart.validate(texts.get(name)!, version);
    expect({ ok, said: ok ? "" : out + err }).toEqual({ ok: true, said: "" });
  });

  test("a field that Kubernetes does not know is found", () => {
    const broken = texts.get(name)!.replace("automountServiceAccountToken: false\n      #", "automountToken: false\n      #");
    expect(broken).not.toBe(texts.get(name));
    expect(chart.validate(broken, "1.37").ok).toBe(false);
  });

  test("no pod may do more than it needs", () => {
    const pods = podsOf(itemsOf(name));
    expect(pods.length).toBeGreaterThanOrEqual(6);
    for (const pod of pods) expect({ of: pod.of, findings: podFindings(pod) }).toEqual({ of: pod.of, findings: [] });
  });
  test("service accounts have no token", () => {
    const accounts = kindsOf(name, "ServiceAccount");
    expect(accounts.filter((account) => account.automountServiceAccountToken !== false)).toEqual([]);
    const names = accounts.map((account) => account.metadata.name);
    for (const { of, spec } of podsOf(itemsOf(name)))
      if (spec.serviceAccountName !== undefined)
        expect({ of, account: [...names, "default"].includes(spec.serviceAccountName) }).toEqual({ of, account: true });
  });
  test("services are for the inside, and lead to a pod with that port", () => {
    const pods = podsOf(itemsOf(name));
    for (const service of kindsOf(name, "Service")) {
      // The one way in from outside, which its user asked for.
      expect(service.spec.type).toBe(service.metadata.name.endsWith("-kafka-outside") ? "NodePort" : "ClusterIP");
      const chosen = pods.filter((pod) => Object.entries(service.spec.selector).every(([key, value]) => pod.labels[key] === value));
      expect({ service: service.metadata.name, pods: chosen.length }).toEqual({ service: service.metadata.name, pods: 1 });
      const ports = chosen[0]!.spec.containers.flatMap((container) => container.ports ?? []).map((port) => port.name);
      for (const { targetPort } of service.spec.ports) expect(ports).toContain(targetPort);
    }
  });
  test("a selector chooses its own pods and no others", () => {
    const workloads = itemsOf(name).filter((item) => item.kind === "Deployment" || item.kind === "StatefulSet");
    for (const workload of workloads) {
      const chosen = workloads.filter(({ spec }) =>
        Object.entries(workload.spec.selector.matchLabels).every(([key, value]) => spec.template.metadata.labels[key] === value),
      );
      expect(chosen.map((one) => one.metadata.name)).toEqual([workload.metadata.name]);
    }
  });
  test("a disruption budget for more than one replica, and for no other", () => {
    const several = itemsOf(name).filter((item) => (item.kind === "Deployment" || item.kind === "StatefulSet") && item.spec.replicas > 1);
    expect(kindsOf(name, "PodDisruptionBudget").map((one) => one.metadata.name)).toEqual(several.map((one) => one.metadata.name).sort());
  });
  test("pods are spread over nodes, by a rule that counts where nodes have no zone", () => {
    const workloads = itemsOf(name).filter((item) => item.kind === "Deployment" || item.kind === "StatefulSet");
    for (const { metadata, spec } of workloads) {
      const rules = spec.template.spec.topologySpreadConstraints ?? [];
      if (rules.length === 0) continue;
      expect(rules.map((rule) => rule.topologyKey)).toEqual(["kubernetes.io/hostname", "topology.kubernetes.io/zone"]);
      // Soft rules are scored together, and a node that lacks the label of one is passed over by all of them.
      const soft = rules.filter((rule) => rule.whenUnsatisfiable === "ScheduleAnyway");
      expect({ name: metadata.name, soft: soft.length }).toEqual({ name: metadata.name, soft: 1 });
    }
  });
  test("nothing that runs once, and no object twice", () => {
    expect(itemsOf(name).filter((item) => /Job|Role/.test(item.kind))).toEqual([]);
    const names = itemsOf(name).map((item) => `${item.kind}/${item.metadata.name}`);
    expect(new Set(names).size).toBe(names.length);
  });
});

function podFindings({ of, spec }: Pod): string[] {
  const findings: string[] = [];
  const need = (what: string, holds: boolean): void => void (holds || findings.push(what));
  const context = spec.securityContext;
  need("non-root", context["runAsNonRoot"] === true && Number(context["runAsUser"]) > 0);
  need("seccomp", JSON.stringify(context["seccompProfile"]) === '{"type":"RuntimeDefault"}');
  need("no token", spec.automountServiceAccountToken === false);
  need("no service links", spec.enableServiceLinks === false);
  need("no host paths", !(spec.volumes ?? []).some((volume) => "hostPath" in volume));
  need("no init container", spec.initContainers === undefined);
  for (const container of spec.containers) findings.push(...containerFindings(container, of.startsWith("Pod "), of.includes("-trial-")));
  const [container] = spec.containers;
  const sleep = container?.lifecycle?.preStop.sleep.seconds ?? 0;
  if (container?.lifecycle !== undefined)
    need("a grace longer than preStop and drain", spec.terminationGracePeriodSeconds >= sleep + 15 + 10);
  return findings;
}
function containerFindings(container: Container, once: boolean, trial: boolean): string[] {
  const findings: string[] = [];
  const need = (what: string, holds: boolean): void => void (holds || findings.push(`${container.name}: ${what}`));
  const context = container.securityContext;
  need("no privilege", context["allowPrivilegeEscalation"] === false && context["privileged"] === undefined);
  need("read-only root", context["readOnlyRootFilesystem"] === true);
  need("no capability", JSON.stringify(context["capabilities"]) === '{"drop":["ALL"]}');
  need("an image with a version", /:[\w.-]+$/.test(container.image) && !container.image.endsWith(":latest"));
  need("requests and a limit of memory", "cpu" in container.resources.requests && "memory" in container.resources.limits);
  need(
    "no host ports",
    (container.ports ?? []).every((port) => !("hostPort" in port)),
  );
  if (once) return findings;
  const probes = [container.startupProbe, container.readinessProbe, container.livenessProbe].map((probe) =>
    JSON.stringify(probe?.["httpGet"] ?? probe?.["tcpSocket"]),
  );
  need(
    "three probes",
    probes.every((probe) => probe !== undefined),
  );
  // A readiness that asks what the liveness asks takes no pod out of service before it is killed. Servers of others have what they have.
  need("probes that differ", trial ? probes[1] !== probes[2] : new Set(probes).size === 3);
  if (!trial) {
    need("a preStop", container.lifecycle !== undefined);
    need(
      "a metrics port",
      (container.ports ?? []).some((port) => port.name === "metrics"),
    );
  }
  return findings;
}

describe("values that are refused, with the name of the key", () => {
  const refused: readonly (readonly [string, string, RegExp])[] = [
    ["a key of no component", 'proxies={"replicas":2}', /'proxies' not allowed/],
    ["a key of no block", 'proxy={"replica":2}', /'\/proxy': additional properties 'replica' not allowed/],
    [
      "a configuration key that the service does not know",
      'broker={"config":{"append.pendingByteMax":1}}',
      /'append\.pendingByteMax' not allowed/,
    ],
    ["a configuration key of another service", 'proxy={"config":{"data.folder":"/x"}}', /'data\.folder' not allowed/],
    ["a configuration key that the chart sets", 'proxy={"config":{"listener.grpc.bind":":1"}}', /'listener\.grpc\.bind' not allowed/],
    ["a secret in the values", 'proxy={"config":{"cluster.secret":"hunter2"}}', /'cluster\.secret' not allowed/],
    ["a number out of its range", 'segmentStore={"config":{"read.concurrency":65}}', /'\/segmentStore\/config\/read\.concurrency'/],
    ["a size that is none", 'proxy={"config":{"cache.tailBytes":"much"}}', /'\/proxy\/config\/cache\.tailBytes'/],
    ["a time without a unit", 'segmentStore={"config":{"offload.takeOverAfter":"10"}}', /'\/segmentStore\/config\/offload\.takeOverAfter'/],
    ["a log level that is none", 'coordinator={"config":{"log.level":"loud"}}', /'\/coordinator\/config\/log\.level'/],
    ["no replica of what cannot be away", 'broker={"replicas":0}', /'\/broker\/replicas'/],
    ["one copy", 'segmentStore={"replicas":1}', /'\/segmentStore\/replicas'/],
    ["an endpoint without a port", 'metadata={"endpoints":["etcd"]}', /'\/metadata\/endpoints\/0'/],
    ["no endpoint", 'metadata={"endpoints":[]}', /metadata\.endpoints: name an etcd/],
    ["an image that changes under its name", 'image={"tag":"latest"}', /'\/image\/tag'/],
    ["a collector that is no URL", 'tracing={"endpoint":"collector:4318"}', /'\/tracing\/endpoint'/],
    ["a collector of one component", 'proxy={"config":{"tracing.endpoint":"http://c:4318"}}', /'tracing\.endpoint' not allowed/],
    ["an object store of an unknown kind", 'objectStore={"url":"ftp://bucket"}', /'\/objectStore\/url'/],
  ];
  test.each(refused)("%s", (_what, set, message) => {
    const { ok, err } = chart.template("minimal", [set]);
    expect({ ok, err }).toEqual({ ok: false, err: expect.stringMatching(message) });
  });
});

describe("what clients connect to", () => {
  test.each(cases)("gRPC and Kafka at the one service, values %s", (name) => {
    const services = kindsOf(name, "Service").filter((service) => service.metadata.labels["app.kubernetes.io/component"] === "proxy");
    const ports = services.map(({ spec }) => spec.ports.map((port) => `${port.name} ${port.port}`));
    expect(ports).toContainEqual(["grpc 7070", "kafka 9092"]);
    // The pods by themselves, for metrics.
    expect(ports).toContainEqual(["grpc 7070", "kafka 9092", "metrics 9600"]);
  });
});

describe("sources of the chart", () => {
  test("no template makes a value that differs at each render", () => {
    const files = readdirSync(join(chartFolder, "templates"), { recursive: true, encoding: "utf8" }).filter((file) =>
      /\.(yaml|tpl|txt)$/.test(file),
    );
    expect(files.length).toBeGreaterThan(8);
    // Only what stands in an action can be a function.
    const actions = files.flatMap((file) => readFileSync(join(chartFolder, "templates", file), "utf8").match(/\{\{[^]*?\}\}/g) ?? []);
    expect(actions.filter((action) => !action.startsWith("{{/*") && BANNED.test(action))).toEqual([]);
    expect(BANNED.test("{{ randAlphaNum 8 }}")).toBe(true);
  });
  test("one disruption budget goes with the second replica", () => {
    const one = chart.items(chart.render("minimal", ['broker={"replicas":1}']));
    expect(one.filter((item) => item.kind === "PodDisruptionBudget" && item.metadata.name.endsWith("-broker"))).toEqual([]);
  });
});

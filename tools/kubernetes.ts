/**
 * `npm run test:kubernetes`: the chart on a real Kubernetes. The cluster is the one of KUBECONFIG, or one that the command in
 * SLUICE_TEST_CLUSTER brings up and takes down:
 *
 *     $SLUICE_TEST_CLUSTER up | down          start it, several nodes; remove it
 *     $SLUICE_TEST_CLUSTER env                print the shell lines that set KUBECONFIG and PATH
 *     $SLUICE_TEST_CLUSTER load ARCHIVE       take images into every node
 *     $SLUICE_TEST_CLUSTER crash N, start N   node N loses power; comes back
 *
 * A cluster of KUBECONFIG takes the images through the command in SLUICE_TEST_LOAD, which is given the path of an archive (`kind load
 * image-archive`, `minikube image load`), and its pod and service networks must be routed from this machine: the client of the drills is
 * outside the pods. Arguments are handed to jest (`-- -t 'scale'`).
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { root, run } from "./run.ts";

const BUDGET_SECONDS = 690;
const CLUSTER_CALL_MS = 240_000;

const command = process.env["SLUICE_TEST_CLUSTER"];
const shell = (script: string, quiet = false): string =>
  execFileSync("sh", ["-c", script], {
    encoding: "utf8",
    timeout: CLUSTER_CALL_MS,
    stdio: ["ignore", "pipe", quiet ? "ignore" : "inherit"],
  });

const environment: NodeJS.ProcessEnv = {};
if (command !== undefined) {
  // Also when this program is told to end: what was started is not left behind.
  process.on("exit", () => void shell(`${command} down`, true));
  shell(`${command} up`);
  const [kubeconfig, path] = shell(`eval "$(${command} env)"; printf '%s\\n%s\\n' "$KUBECONFIG" "$PATH"`).split("\n");
  environment["KUBECONFIG"] = kubeconfig;
  environment["PATH"] = `${join(root, "node_modules/.bin")}:${path}`;
} else if (process.env["KUBECONFIG"] === undefined) {
  process.stderr.write(
    "no Kubernetes: set KUBECONFIG, or SLUICE_TEST_CLUSTER to a command that brings a cluster up (see tools/kubernetes.ts)\n",
  );
  process.exit(2);
}

const temp = mkdtempSync(join(tmpdir(), "sluice-kubernetes-"));
const report = join(temp, "report.json");
const flags = ["--selectProjects", "kubernetes", "--runInBand", "--json", `--outputFile=${report}`, ...process.argv.slice(2)];
const jest = ["--experimental-vm-modules", "--disable-warning=ExperimentalWarning", "node_modules/jest/bin/jest.js"];
const result = await run(["node", ...jest, ...flags], { budgetSeconds: BUDGET_SECONDS, environment });
const json = existsSync(report)
  ? (JSON.parse(readFileSync(report, "utf8")) as { numPassedTests: number; numFailedTests: number; numRuntimeErrorTestSuites: number })
  : { numPassedTests: 0, numFailedTests: 1, numRuntimeErrorTestSuites: 0 };
rmSync(temp, { recursive: true, force: true });
const failed = json.numFailedTests + json.numRuntimeErrorTestSuites;
process.stdout.write(`\n${json.numPassedTests} passed, ${failed === 0 && !result.ok ? 1 : failed} failed\n`);
process.exit(result.ok ? 0 : 1);

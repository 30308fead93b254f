import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { aptInstall, cachedTool, findGo, findProgram, run, toolsDir, type Tool } from "./tools.ts";

/*
 * What the tests of the chart need: helm, and the schemas of Kubernetes' own objects with a checker for them. Neither needs a cluster.
 */
export const HELM_VERSION = "3.22.0";
export const KUBERNETES_VALIDATE_VERSION = "1.37.0";

/** helm, built with Go, once on a machine (about a minute). Throws, naming what is missing. */
export async function ensureHelm(): Promise<Tool> {
  const go = findGo();
  if (go === undefined && !existsSync(join(toolsDir(), `helm-${HELM_VERSION}`, "helm")))
    throw new Error(`the tests of the chart need helm ${HELM_VERSION}, which needs Go, and Go is not on this machine`);
  return cachedTool("helm", HELM_VERSION, "helm", async (dir) => {
    // What helm template and helm lint take for the cluster's version comes from these flags; else it is one of 2020.
    const [major, minor] = KUBERNETES_VALIDATE_VERSION.split(".");
    const versions = ["pkg/lint/rules.k8sVersion", "pkg/chartutil.k8sVersion"].map(
      (name) => `-X helm.sh/helm/v3/${name}Major=${major} -X helm.sh/helm/v3/${name}Minor=${minor}`,
    );
    const flags = `-ldflags=-s -w -X helm.sh/helm/v3/internal/version.version=v${HELM_VERSION} ${versions.join(" ")}`;
    const build = ["install", "-trimpath", flags, `helm.sh/helm/v3/cmd/helm@v${HELM_VERSION}`];
    await run(go ?? "go", build, { cwd: dir, env: { GOBIN: dir, GOFLAGS: "-buildvcs=false" } });
  });
}

/** A Python that has the checker of Kubernetes' schemas, and with it a reader of YAML. Throws, naming what is missing. */
export async function ensureKubernetesValidate(): Promise<Tool> {
  return cachedTool("kubernetes-validate", KUBERNETES_VALIDATE_VERSION, join("bin", "python"), async (dir) => {
    const python = findProgram("python3", ["/usr/bin"]);
    if (python === undefined) throw new Error("the tests of the chart need Python 3, which is not on this machine");
    try {
      await run(python, ["-m", "venv", dir]);
    } catch {
      await aptInstall(["python3-venv"]);
      await run(python, ["-m", "venv", "--clear", dir]);
    }
    const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", `kubernetes-validate==${KUBERNETES_VALIDATE_VERSION}`];
    await run(join(dir, "bin", "python"), pip);
    // The installed scripts name the folder of the build; the modules do not.
    await rm(join(dir, "bin", "kubernetes-validate"), { force: true });
  });
}

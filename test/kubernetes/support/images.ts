import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { ensureEtcdCurrent, ensureS3Server, say, tempDir } from "@sluice/test-support";
import { layOutProgram } from "../../../deploy/docker/base.ts";
import { Builder } from "../../../deploy/docker/builder.ts";
import { root, targets } from "../../../deploy/docker/stage.ts";

/** What the documentation calls REGISTRY. Images of this name are never pulled: they are there or the pod says that they are not. */
export const REGISTRY = "localhost";
export const SERVER_TAG = "test";

/** Images of the servers that the trial values start: the programs that the other tests start too. */
async function buildServers(builder: Builder, folder: string): Promise<string[]> {
  const [etcd, s3] = [await ensureEtcdCurrent(), await ensureS3Server("versitygw")];
  if (etcd === undefined) throw new Error("the tests on Kubernetes need a current etcd, which needs Go");
  const refs: string[] = [];
  for (const [name, tool] of [["etcd", etcd] as const, ["versitygw", s3] as const]) {
    const ref = `${REGISTRY}/${name}:${SERVER_TAG}`;
    layOutProgram(join(folder, name), tool.path, name);
    builder.build(join(folder, name), ref, []);
    refs.push(ref);
  }
  return refs;
}

/**
 * Puts the images into the cluster: with the command in SLUICE_TEST_LOAD, which takes the path of an archive (`kind load image-archive`,
 * `minikube image load`), else with the `load` of SLUICE_TEST_CLUSTER. The images of the services were built before, as the
 * documentation says.
 */
export async function loadImages(tag: string): Promise<void> {
  const cluster = process.env["SLUICE_TEST_CLUSTER"];
  const load = process.env["SLUICE_TEST_LOAD"] ?? (cluster === undefined ? undefined : `${cluster} load`);
  if (load === undefined) throw new Error("SLUICE_TEST_LOAD is not set: the command that takes an archive of images into this cluster");
  const builder = Builder.find();
  await using temp = await tempDir("images");
  const refs = [...targets.map((target) => `${REGISTRY}/sluice-${target}:${tag}`), ...(await buildServers(builder, temp.path))];
  const archive = join(temp.path, "images.tar");
  builder.save(refs, archive);
  const startMs = performance.now();
  await promisify(execFile)("sh", ["-c", `${load} "$1"`, "load", archive], { cwd: root, maxBuffer: 64 * 1024 * 1024 });
  say(`${refs.length} images loaded in ${((performance.now() - startMs) / 1_000).toFixed(1)} s`);
}

import { join } from "node:path";
import { aptInstall, cachedTool, findGo, findProgram, run, say } from "./tools.ts";

/*
 * Clients that are not ours: grpcurl where Go can build it, and Python's gRPC library with server reflection.
 */
export const GRPCURL_VERSION = "1.9.4";
const PYTHON_PACKAGES = ["grpcio==1.85.3", "grpcio-reflection==1.85.1", "protobuf==7.36.2"];

/** Path of grpcurl; undefined, with a line that says why, where Go is missing. */
export async function ensureGrpcurl(): Promise<string | undefined> {
  const go = findGo();
  if (go === undefined) {
    say(`no grpcurl ${GRPCURL_VERSION}: Go is not on this machine`);
    return undefined;
  }
  const tool = await cachedTool("grpcurl", GRPCURL_VERSION, "grpcurl", async (dir) => {
    const build = ["install", "-trimpath", "-ldflags=-s -w", `github.com/fullstorydev/grpcurl/cmd/grpcurl@v${GRPCURL_VERSION}`];
    await run(go, build, { cwd: dir, env: { GOBIN: dir, GOFLAGS: "-buildvcs=false" } });
  });
  return tool.path;
}

/** Path of a Python that has gRPC and server reflection. Throws, naming what is missing. */
export const ensurePythonGrpc = (): Promise<string> =>
  pythonTool("python-grpc", "1.85.3", PYTHON_PACKAGES, "the test of foreign clients needs");

/** Path of a Python in an environment of its own that has `packages`. Throws, naming what is missing and who needs it. */
export async function pythonTool(name: string, version: string, packages: readonly string[], whoNeeds: string): Promise<string> {
  const tool = await cachedTool(name, version, join("bin", "python"), async (dir) => {
    const python = findProgram("python3", ["/usr/bin"]);
    if (python === undefined) throw new Error(`${whoNeeds} Python 3, which is not on this machine`);
    try {
      await run(python, ["-m", "venv", dir]);
    } catch {
      await aptInstall(["python3-venv"]);
      await run(python, ["-m", "venv", "--clear", dir]);
    }
    await run(join(dir, "bin", "python"), ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", ...packages]);
  });
  return tool.path;
}

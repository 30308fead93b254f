import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { LocalServer, started, type Launch, type LocalProcess } from "./local-server.ts";
import { freePort } from "./ports.ts";
import { tempDir, type TempDir } from "./temp.ts";
import { aptInstall, cachedTool, findGo, findProgram, run, say, type Tool, toolsDir } from "./tools.ts";

/*
 * An S3 server for tests: versitygw where Go can build it (checks signatures, keeps its data over a kill), else moto, which comes from
 * PyPI with Python alone (in memory, accepts any secret).
 */
export type S3Kind = "versitygw" | "moto";
export interface S3Tool extends Tool {
  readonly kind: S3Kind;
}

export const VERSITYGW_VERSION = "1.8.0";
export const MOTO_VERSION = "5.2.5";
const READY_TIMEOUT_MS = 30_000;
const REGION = "us-east-1";

/** The server to test with. Throws, naming what is missing, when none can be had. */
export async function ensureS3Server(kind?: S3Kind): Promise<S3Tool> {
  if (kind !== "moto") {
    const tool = await ensureVersitygw();
    if (tool !== undefined) return { ...tool, kind: "versitygw" };
    if (kind === "versitygw") throw new Error(`no versitygw ${VERSITYGW_VERSION} on this machine`);
  }
  return { ...(await ensureMoto()), kind: "moto" };
}

async function ensureVersitygw(): Promise<Tool | undefined> {
  const version = VERSITYGW_VERSION;
  const go = findGo();
  if (go === undefined && !existsSync(join(toolsDir(), `versitygw-${version}`, "versitygw"))) {
    say(`no versitygw ${version}: Go is not on this machine`);
    return undefined;
  }
  try {
    return await cachedTool("versitygw", version, "versitygw", async (dir) => {
      const build = ["install", "-trimpath", "-ldflags=-s -w", `github.com/versity/versitygw/cmd/versitygw@v${version}`];
      // Minutes of processor time: everything else on the machine goes first.
      const [program, args] = findProgram("nice") === undefined ? [go ?? "go", build] : ["nice", ["-n", "10", go ?? "go", ...build]];
      await run(program, args, { cwd: dir, env: { GOBIN: dir, GOFLAGS: "-buildvcs=false" } });
    });
  } catch (error) {
    say(`no versitygw ${version}: ${(error as Error).message}`);
    return undefined;
  }
}

/** A virtual environment; its own scripts hold absolute paths and do not survive the cache's rename, so the interpreter is the program. */
async function ensureMoto(): Promise<Tool> {
  return cachedTool("moto", MOTO_VERSION, join("bin", "python"), async (dir) => {
    const python = findProgram("python3", ["/usr/bin"]);
    if (python === undefined) throw new Error("an S3 server for the tests needs Go or Python 3, and neither is on this machine");
    try {
      await run(python, ["-m", "venv", dir]);
    } catch {
      await aptInstall(["python3-venv"]);
      await run(python, ["-m", "venv", "--clear", dir]);
    }
    const pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", `moto[s3,server]==${MOTO_VERSION}`];
    await run(join(dir, "bin", "python"), pip);
  });
}

export interface S3Options {
  /** Default: the best that this machine can have. */
  readonly kind?: S3Kind;
  readonly bucket?: string;
  /** Default: a temporary folder that goes with the server. Moto keeps nothing there. */
  readonly dataDir?: string;
}
export interface S3Server extends LocalProcess {
  readonly kind: S3Kind;
  readonly version: string;
  /** s3://BUCKET?endpoint=...&region=..., without credentials; the same over restarts. */
  readonly url: string;
  /** http://127.0.0.1:PORT */
  readonly endpoint: string;
  readonly port: number;
  readonly region: string;
  readonly bucket: string;
  readonly accessKey: string;
  readonly secretKey: string;
  /** Folder with one file per object (versitygw). */
  readonly dataDir: string;
  /** Objects survive `kill` and `start`. */
  readonly keepsData: boolean;
}

/** One S3 server on loopback with one bucket, answering when this returns. Its secret is new for every server. */
export async function startS3(options: S3Options = {}): Promise<S3Server> {
  const tool = await ensureS3Server(options.kind);
  const temp = options.dataDir === undefined ? await tempDir("s3") : undefined;
  const dataDir = options.dataDir ?? join(temp?.path ?? "", "data");
  return started(new LocalS3(tool, dataDir, options.bucket ?? "sluice-test", await freePort(), temp));
}

class LocalS3 extends LocalServer implements S3Server {
  readonly kind: S3Kind;
  readonly version: string;
  readonly endpoint: string;
  readonly port: number;
  readonly region = REGION;
  readonly bucket: string;
  readonly accessKey = "sluice-test";
  readonly secretKey = randomBytes(20).toString("hex");
  readonly #tool: S3Tool;

  constructor(tool: S3Tool, dataDir: string, bucket: string, port: number, temp: TempDir | undefined) {
    super(dataDir, READY_TIMEOUT_MS, temp);
    this.kind = tool.kind;
    this.version = tool.version;
    this.port = port;
    this.endpoint = `http://127.0.0.1:${port}`;
    this.bucket = bucket;
    this.#tool = tool;
  }

  get url(): string {
    return `s3://${this.bucket}?${new URLSearchParams({ endpoint: this.endpoint, region: this.region }).toString()}`;
  }
  get keepsData(): boolean {
    return this.kind === "versitygw";
  }
  protected async launch(): Promise<Launch> {
    // To versitygw a folder is a bucket.
    await mkdir(join(this.dataDir, this.bucket), { recursive: true });
    const env = { ...process.env, ROOT_ACCESS_KEY: this.accessKey, ROOT_SECRET_KEY: this.secretKey };
    return { program: this.#tool.path, args: this.#args(), env };
  }
  #args(): string[] {
    return this.kind === "versitygw"
      ? ["--port", `127.0.0.1:${this.port}`, "--region", REGION, "--keep-alive", "--quiet", "posix", this.dataDir]
      : ["-m", "moto.server", "-H", "127.0.0.1", "-p", String(this.port)];
  }
  /** Any answer will do for versitygw, which has the bucket; moto takes an unsigned request to make one. */
  protected async ready(): Promise<boolean> {
    try {
      const init = { signal: AbortSignal.timeout(2_000), method: this.kind === "moto" ? "PUT" : "GET" };
      const answer = await fetch(`${this.endpoint}/${this.bucket}`, init);
      await answer.arrayBuffer();
      return this.kind === "moto" ? answer.ok : true;
    } catch {
      return false;
    }
  }
}

import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "./ports.ts";
import { tempDir, type TempDir } from "./temp.ts";
import { ensureEtcd34 } from "./tools.ts";
import { pauseProcess } from "./pause.ts";

export interface EtcdOptions {
  /** Default: the system's. */
  readonly binary?: string;
  /** Default: a temporary folder that goes with the server. */
  readonly dataDir?: string;
  /** Client port; default a free one. */
  readonly port?: number;
}
export interface EtcdServer {
  /** http://127.0.0.1:PORT, the same over restarts. */
  readonly clientUrl: string;
  readonly port: number;
  readonly dataDir: string;
  /** Of the process that runs, or ran last. */
  readonly pid: number;
  /** SIGKILL; returns when the process is gone. */
  kill(): Promise<void>;
  /** SIGTERM; returns when the process is gone. */
  stop(): Promise<void>;
  /** SIGSTOP: connections stay open and nothing answers. */
  pause(): void;
  /** SIGCONT. */
  resume(): void;
  /** Starts again on the same data and ports; returns when it is healthy. */
  start(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

const HEALTHY_TIMEOUT_MS = 20_000;

/** One etcd on loopback, healthy when this returns. Without fsync: the tests kill the process, not the machine. */
export async function startEtcd(options: EtcdOptions = {}): Promise<EtcdServer> {
  const binary = options.binary ?? (await ensureEtcd34()).path;
  const temp = options.dataDir === undefined ? await tempDir("etcd") : undefined;
  const server = new LocalEtcd(
    binary,
    options.dataDir ?? join(temp!.path, "data"),
    options.port ?? (await freePort()),
    await freePort(),
    temp,
  );
  try {
    await server.start();
  } catch (error) {
    await server[Symbol.asyncDispose]();
    throw error;
  }
  return server;
}

class LocalEtcd implements EtcdServer {
  readonly clientUrl: string;
  readonly port: number;
  readonly dataDir: string;
  readonly #binary: string;
  readonly #peerUrl: string;
  readonly #temp: TempDir | undefined;
  #child: ChildProcess | undefined;
  #exited: Promise<void> = Promise.resolve();

  constructor(binary: string, dataDir: string, port: number, peerPort: number, temp: TempDir | undefined) {
    this.#binary = binary;
    this.dataDir = dataDir;
    this.port = port;
    this.clientUrl = `http://127.0.0.1:${port}`;
    this.#peerUrl = `http://127.0.0.1:${peerPort}`;
    this.#temp = temp;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  async start(): Promise<void> {
    if (this.#running()) return;
    // A file, not a pipe: a pipe would stop the server when this process is busy, and keep this process alive.
    const log = openSync(this.#logPath(), "a");
    const child = spawn(this.#binary, this.#args(), { stdio: ["ignore", log, log] });
    closeSync(log);
    this.#child = child;
    this.#exited = new Promise((resolve) => {
      child.once("exit", () => resolve());
      child.once("error", () => resolve());
    });
    await this.#untilHealthy();
  }

  async kill(): Promise<void> {
    if (this.#running()) this.#child?.kill("SIGKILL");
    await this.#exited;
  }
  async stop(): Promise<void> {
    if (this.#running()) {
      this.#child?.kill("SIGTERM");
      this.#child?.kill("SIGCONT");
    }
    await this.#exited;
  }
  pause(): void {
    if (this.#child?.pid !== undefined) pauseProcess(this.#child.pid);
  }
  resume(): void {
    this.#child?.kill("SIGCONT");
  }
  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    await this.#temp?.[Symbol.asyncDispose]();
  }

  #running(): boolean {
    return this.#child?.pid !== undefined && this.#child.exitCode === null && this.#child.signalCode === null;
  }
  #logPath(): string {
    return `${this.dataDir}.log`;
  }

  /** Short election times: a single member elects itself in a fraction of the default second. */
  #args(): string[] {
    return [
      "--name=test",
      `--data-dir=${this.dataDir}`,
      `--listen-client-urls=${this.clientUrl}`,
      `--advertise-client-urls=${this.clientUrl}`,
      `--listen-peer-urls=${this.#peerUrl}`,
      `--initial-advertise-peer-urls=${this.#peerUrl}`,
      `--initial-cluster=test=${this.#peerUrl}`,
      "--heartbeat-interval=20",
      "--election-timeout=200",
      "--unsafe-no-fsync",
      "--logger=zap",
      "--log-level=warn",
    ];
  }

  async #untilHealthy(): Promise<void> {
    for (const endMs = performance.now() + HEALTHY_TIMEOUT_MS; performance.now() < endMs; await sleep(20)) {
      if (!this.#running()) break;
      if (await this.#healthy()) return;
    }
    await this.kill();
    const log = await readFile(this.#logPath(), "utf8").catch(() => "");
    throw new Error(`${this.#binary} did not get healthy on ${this.clientUrl}:\n${log.trim().split("\n").slice(-10).join("\n")}`);
  }
  async #healthy(): Promise<boolean> {
    try {
      const answer = await fetch(`${this.clientUrl}/health`, { signal: AbortSignal.timeout(1_000) });
      return ((await answer.json()) as { health?: string }).health === "true";
    } catch {
      return false;
    }
  }
}

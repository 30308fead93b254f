import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { pauseProcess } from "./pause.ts";
import type { TempDir } from "./temp.ts";

/** What tests do to a server that runs as a process of its own. */
export interface LocalProcess extends AsyncDisposable {
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
  /** Starts again on the same data and ports; returns when it answers. */
  start(): Promise<void>;
}
export interface Launch {
  readonly program: string;
  readonly args: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
}

/** The process of a server and its log beside the data; what to launch and when it answers is the subclass's. */
export abstract class LocalServer implements LocalProcess {
  readonly dataDir: string;
  readonly #temp: TempDir | undefined;
  readonly #readyTimeoutMs: number;
  #child: ChildProcess | undefined;
  #exited: Promise<void> = Promise.resolve();

  protected constructor(dataDir: string, readyTimeoutMs: number, temp: TempDir | undefined) {
    this.dataDir = dataDir;
    this.#readyTimeoutMs = readyTimeoutMs;
    this.#temp = temp;
  }
  protected abstract launch(): Promise<Launch> | Launch;
  protected abstract ready(): Promise<boolean>;

  get pid(): number {
    return this.#child?.pid ?? 0;
  }
  async start(): Promise<void> {
    if (this.#running()) return;
    const { program, args, env } = await this.launch();
    // A file, not a pipe: a pipe would stop the server when this process is busy, and keep this process alive.
    const log = openSync(this.#logPath(), "a");
    const child = spawn(program, [...args], { stdio: ["ignore", log, log], ...(env && { env }) });
    closeSync(log);
    this.#child = child;
    this.#exited = new Promise((resolve) => {
      child.once("exit", () => resolve());
      child.once("error", () => resolve());
    });
    await this.#untilReady(program);
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
  async #untilReady(program: string): Promise<void> {
    for (const endMs = performance.now() + this.#readyTimeoutMs; performance.now() < endMs; await sleep(20)) {
      if (!this.#running()) break;
      if (await this.ready()) return;
    }
    await this.kill();
    const log = await readFile(this.#logPath(), "utf8").catch(() => "");
    throw new Error(`${program} did not answer in time:\n${log.trim().split("\n").slice(-10).join("\n")}`);
  }
}

/** Starts it; when that fails nothing of it stays. */
export async function started<T extends LocalServer>(server: T): Promise<T> {
  try {
    await server.start();
    return server;
  } catch (error) {
    await server[Symbol.asyncDispose]();
    throw error;
  }
}

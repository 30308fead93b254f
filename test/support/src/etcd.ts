import { join } from "node:path";
import { started, LocalServer, type Launch, type LocalProcess } from "./local-server.ts";
import { freePort } from "./ports.ts";
import { tempDir, type TempDir } from "./temp.ts";
import { ensureEtcd34 } from "./tools.ts";

export interface EtcdOptions {
  /** Default: the system's. */
  readonly binary?: string;
  /** Default: a temporary folder that goes with the server. */
  readonly dataDir?: string;
  /** Client port; default a free one. */
  readonly port?: number;
}
export interface EtcdServer extends LocalProcess {
  /** http://127.0.0.1:PORT, the same over restarts. */
  readonly clientUrl: string;
  readonly port: number;
  readonly dataDir: string;
}

const HEALTHY_TIMEOUT_MS = 20_000;

/** One etcd on loopback, healthy when this returns. Without fsync: the tests kill the process, not the machine. */
export async function startEtcd(options: EtcdOptions = {}): Promise<EtcdServer> {
  const binary = options.binary ?? (await ensureEtcd34()).path;
  const temp = options.dataDir === undefined ? await tempDir("etcd") : undefined;
  const dataDir = options.dataDir ?? join(temp!.path, "data");
  return started(new LocalEtcd(binary, dataDir, options.port ?? (await freePort()), await freePort(), temp));
}

class LocalEtcd extends LocalServer implements EtcdServer {
  readonly clientUrl: string;
  readonly port: number;
  readonly #binary: string;
  readonly #peerUrl: string;

  constructor(binary: string, dataDir: string, port: number, peerPort: number, temp: TempDir | undefined) {
    super(dataDir, HEALTHY_TIMEOUT_MS, temp);
    this.#binary = binary;
    this.port = port;
    this.clientUrl = `http://127.0.0.1:${port}`;
    this.#peerUrl = `http://127.0.0.1:${peerPort}`;
  }

  /** Short election times: a single member elects itself in a fraction of the default second. */
  protected launch(): Launch {
    const args = [
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
    return { program: this.#binary, args };
  }

  protected async ready(): Promise<boolean> {
    try {
      const answer = await fetch(`${this.clientUrl}/health`, { signal: AbortSignal.timeout(1_000) });
      return ((await answer.json()) as { health?: string }).health === "true";
    } catch {
      return false;
    }
  }
}

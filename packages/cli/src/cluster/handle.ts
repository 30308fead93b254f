import type { ProcessState } from "./pid.ts";
import type { ClusterKind, ClusterSpec } from "./spec.ts";

export interface MemberStatus {
  readonly id: string;
  readonly kind: ClusterKind;
  readonly pid: number;
  readonly zone: string | null;
  readonly state: ProcessState;
  readonly ready: boolean;
  /** Why it is not ready; empty when it is. */
  readonly reason: string;
  readonly address: string;
}
/** A cluster of processes on this machine. Every method takes ids such as "broker-1" and works from any process: the folder knows all. */
export interface ClusterHandle extends AsyncDisposable {
  readonly dir: string;
  /** As last read or written by this handle. */
  readonly spec: ClusterSpec;
  /** SIGKILL; resolves when the process is gone. */
  kill(id: string): Promise<void>;
  /** SIGTERM; resolves when the process is gone, which it is made to be after 30 s. */
  stop(id: string): Promise<void>;
  /** SIGSTOP: connections stay open and nothing answers. */
  pause(id: string): Promise<void>;
  /** SIGCONT. */
  resume(id: string): Promise<void>;
  /**
   * Same program, flags, ports and data; resolves when it serves. Nothing to do when it runs. All but etcd need etcd: without it nothing is
   * started. `progress` is told what is waited for.
   */
  start(id: string, progress?: (text: string) => void): Promise<void>;
  status(): Promise<MemberStatus[]>;
  /** Ends all processes of the cluster, clients' side first. The folder stays: `clusterUp` on it brings the same cluster back. */
  down(progress?: (text: string) => void): Promise<void>;
}

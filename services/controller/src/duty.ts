import type { ClusterView, Keys } from "@sluice/catalog";
import type { MemberRecord, Timers } from "@sluice/core/model";
import type { ProbeResult } from "@sluice/core/placement";
import type { MetadataStore } from "@sluice/metadata";
import type { ObjectStore } from "@sluice/object-store";
import type { Clock, Logger, Random } from "@sluice/runtime";
import type { Leadership } from "./leader.ts";
import type { ControllerLimits } from "./limits.ts";
import type { ControllerMetrics } from "./metrics.ts";

/** What the duties of a leader work with, for one term. */
export interface Duty {
  readonly store: MetadataStore;
  readonly keys: Keys;
  readonly view: ClusterView;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly timers: Timers;
  readonly limits: ControllerLimits;
  readonly metrics: ControllerMetrics;
  readonly leadership: Leadership;
  readonly peers: PeerAccess;
  readonly objects: ObjectStore | undefined;
}

/** How the controller reaches other members; handed in, so that tests and the simulator can answer instead. */
export interface PeerAccess {
  /** One connect to `host:port`: open, refused (also reset), or no answer in time. */
  probe(address: string, timeoutMs: number): Promise<ProbeResult>;
  /** Segments that a storage node holds, as `<topicId>/<partition>/<epoch>-<k>`; throws when it does not answer. */
  segmentsOf(node: MemberRecord, signal: AbortSignal): Promise<ReadonlySet<string>>;
}

/** Resolves once the view has seen `revision`, or after `timeoutMs`: what is decided next then knows this leader's own writes. */
export const viewAt = (duty: Pick<Duty, "view" | "clock">, revision: number, timeoutMs: number): Promise<void> =>
  viewShows(duty, () => duty.view.revision >= revision, timeoutMs);

/** Resolves once the view shows it, or after `timeoutMs`. */
export function viewShows({ view, clock }: Pick<Duty, "view" | "clock">, shows: () => boolean, timeoutMs: number): Promise<void> {
  if (shows()) return Promise.resolve();
  return new Promise((resolve) => {
    const done = (): void => {
      timer.cancel();
      unsubscribe();
      resolve();
    };
    const timer = clock.setTimer(timeoutMs, done);
    const unsubscribe = view.onChange(() => {
      if (shows()) done();
    });
  });
}

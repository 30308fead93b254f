import { SluiceError } from "@sluice/core/model";
import { defineAccess } from "./access.ts";
import type { CallContext } from "./context.ts";
import { Health, HealthCheckResponse_ServingStatus as Status } from "./gen/grpc/health/v1/health_pb.ts";
import { implement, type ServiceRegistration } from "./implement.ts";

export type ServingStatus = "SERVING" | "NOT_SERVING";

/** grpc.health.v1 of one server. All names start as NOT_SERVING. */
export interface HealthService {
  readonly registration: ServiceRegistration;
  set(service: string, status: ServingStatus): void;
  setAll(status: ServingStatus): void;
  /** Ends all watches. */
  close(): void;
}
const WATCHES_MAX = 1_000;
const access = defineAccess(Health, { check: "open", watch: "open" });

export function createHealthService(names: readonly string[]): HealthService {
  const states = new Map<string, ServingStatus>(names.map((name) => [name, "NOT_SERVING"]));
  const watchers = new Set<() => void>();
  let closed = false;
  const notify = (): void => {
    for (const wake of watchers) wake();
  };
  const numberOf = (name: string): Status => {
    const state = states.get(name);
    return state === undefined ? Status.SERVICE_UNKNOWN : Status[state];
  };
  async function* watch(request: { readonly service: string }, context: CallContext) {
    if (watchers.size >= WATCHES_MAX) throw new SluiceError("OVERLOADED", `more than ${WATCHES_MAX} health watches`);
    let wake: () => void = () => undefined;
    const onEvent = (): void => wake();
    watchers.add(onEvent);
    context.signal.addEventListener("abort", onEvent, { once: true });
    context.draining.addEventListener("abort", onEvent, { once: true });
    try {
      let told: Status | undefined;
      for (;;) {
        const changed = new Promise<void>((resolve) => (wake = resolve));
        const status = numberOf(request.service);
        if (status !== told) yield { status: (told = status) };
        // A watch would otherwise hold up the drain: the watcher has just been told, and may ask again elsewhere.
        if (closed || context.signal.aborted || context.draining.aborted) return;
        await changed;
      }
    } finally {
      watchers.delete(onEvent);
      context.draining.removeEventListener("abort", onEvent);
    }
  }
  return {
    registration: implement(access, {
      check(request) {
        if (!states.has(request.service)) throw new SluiceError("UNKNOWN_SERVICE", `no service ${request.service.slice(0, 100)} here`);
        return { status: numberOf(request.service) };
      },
      watch,
    }),
    set(service, status) {
      states.set(service, status);
      notify();
    },
    setAll(status) {
      for (const name of states.keys()) states.set(name, status);
      notify();
    },
    close() {
      closed = true;
      notify();
    },
  };
}

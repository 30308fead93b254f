import { Server, ServerCredentials, status, type ServerDuplexStream, type sendUnaryData, type ServerUnaryCall } from "@grpc/grpc-js";
import { afterEach, describe, expect, test } from "@jest/globals";
import { silentLogger, systemClock, systemRandom } from "@sluice/runtime";
import { serviceConstructor } from "../src/etcd/protocol.ts";
import { openEtcdMetadata, type MetadataStore } from "../src/index.ts";

interface KeepAlive {
  readonly ID: string;
}
type Stream = ServerDuplexStream<KeepAlive, { ID: string; TTL: string }>;

/** What a real etcd cannot be made to do on time: an answer exactly so late, one that never comes, a grant whose answer is lost. */
interface Script {
  keepAlive?: (stream: Stream, request: KeepAlive, count: number) => void;
  grant?: (count: number) => "answer" | "break" | "exists";
}
const open: { server: Server; store: MetadataStore }[] = [];
afterEach(async () => {
  for (const { server, store } of open.splice(0)) {
    await store.close();
    server.forceShutdown();
  }
});

async function scripted(script: Script): Promise<{ store: MetadataStore; grants: string[] }> {
  const server = new Server();
  const grants: string[] = [];
  let renewals = 0;
  server.addService(serviceConstructor("Lease").service, {
    leaseGrant: (call: ServerUnaryCall<{ ID: string; TTL: string }, object>, done: sendUnaryData<object>) => {
      grants.push(call.request.ID);
      const what = script.grant?.(grants.length) ?? "answer";
      if (what === "break") done({ code: status.UNAVAILABLE, details: "transport is closing" });
      else if (what === "exists") done({ code: status.FAILED_PRECONDITION, details: "etcdserver: lease already exists" });
      else done(null, { ID: call.request.ID, TTL: call.request.TTL });
    },
    leaseKeepAlive: (stream: Stream) => {
      stream.on("data", (request: KeepAlive) => script.keepAlive?.(stream, request, ++renewals));
      stream.on("end", () => stream.end());
      stream.on("error", () => undefined);
    },
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    );
  });
  const store = openEtcdMetadata({ endpoints: [`127.0.0.1:${port}`], clock: systemClock, random: systemRandom, logger: silentLogger });
  open.push({ server, store });
  return { store, grants };
}
const answer = (stream: Stream, { ID }: KeepAlive, ttl = "1"): void => void stream.write({ ID, TTL: ttl });

describe("the lease on etcd", () => {
  test("counts from the sending of a renewal, not from its answer", async () => {
    let receivedMs = 0;
    let answeredMs = 0;
    const answered = Promise.withResolvers<void>();
    const { store } = await scripted({
      keepAlive: (stream, request, count) => {
        if (count > 1) return;
        receivedMs = systemClock.monotonicMs();
        setTimeout(() => {
          answeredMs = systemClock.monotonicMs();
          answer(stream, request);
          answered.resolve();
        }, 250);
      },
    });
    const lease = await store.lease(1_000);
    const granted = lease.confirmedUntilMs();
    await answered.promise;
    while (lease.confirmedUntilMs() === granted) await systemClock.sleep(5);
    const countedFromMs = lease.confirmedUntilMs() - 900;
    expect(countedFromMs).toBeLessThanOrEqual(receivedMs);
    expect(countedFromMs).toBeLessThan(answeredMs - 200);
  });

  test("a renewal that is not answered is sent again on a new stream; late answers of the old one do not count", async () => {
    const streams = new Set<Stream>();
    const second = Promise.withResolvers<void>();
    const { store } = await scripted({
      keepAlive: (stream, request, count) => {
        streams.add(stream);
        if (count >= 2) {
          answer(stream, request);
          second.resolve();
        }
      },
    });
    const lease = await store.lease(1_000);
    const granted = lease.confirmedUntilMs();
    await second.promise;
    while (lease.confirmedUntilMs() === granted) await systemClock.sleep(5);
    expect(streams.size).toBe(2);
    expect(lease.lost.aborted).toBe(false);
  });

  test("TTL 0 is a loss, and the renewing ends", async () => {
    let asked = 0;
    const { store } = await scripted({ keepAlive: (stream, request) => (asked++, answer(stream, request, "0")) });
    const lease = await store.lease(300);
    while (!lease.lost.aborted) await systemClock.sleep(5);
    expect(lease.lost.reason).toMatchObject({ code: "LEASE_LOST" });
    await systemClock.sleep(800);
    expect(asked).toBe(1);
    await lease.revoke();
  });

  test("a grant whose answer was lost is asked for again under the same id", async () => {
    const { store, grants } = await scripted({ grant: (count) => (count === 1 ? "break" : "exists") });
    const lease = await store.lease(1_500);
    expect(grants).toEqual([lease.id, lease.id]);
    expect(lease.ttlMs).toBe(2_000);
  });

  test("no renewal is sent while the holder is not healthy", async () => {
    const asked = Promise.withResolvers<void>();
    const { store } = await scripted({ keepAlive: () => asked.resolve() });
    const lease = await store.lease(1_000);
    let looked = 0;
    lease.setHealthCheck(() => ++looked > 2);
    await asked.promise;
    expect(looked).toBe(3);
  });
});

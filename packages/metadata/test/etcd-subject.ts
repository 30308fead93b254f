import { silentLogger, systemClock, systemRandom } from "@sluice/runtime";
import { startEtcd, startTcpProxy, type Tool } from "@sluice/test-support";
import type { MetadataContractServer, MetadataContractSubject } from "../src/contract/index.ts";
import { openEtcdMetadata } from "../src/index.ts";

/** A real etcd behind a proxy that cuts connections. */
export const etcdSubject = (name: string, binary: () => Promise<Tool>): MetadataContractSubject => ({
  name,
  setUp: async () => startServer((await binary()).path),
});

async function startServer(binary: string): Promise<MetadataContractServer> {
  const etcd = await startEtcd({ binary });
  const proxy = await startTcpProxy(etcd.port);
  const endpoints = [`http://127.0.0.1:${proxy.port}`];
  return {
    clock: systemClock,
    passTime: (ms) => systemClock.sleep(ms),
    open: async () =>
      openEtcdMetadata({ endpoints, prefix: "/sluice/v1/", clock: systemClock, random: systemRandom, logger: silentLogger }),
    shared: true,
    endLease: async (id) => {
      const answer = await fetch(`${etcd.clientUrl}/v3/lease/revoke`, { method: "POST", body: JSON.stringify({ ID: id }) });
      if (!answer.ok) throw new Error(await answer.text());
    },
    restart: async (store) => {
      await etcd.kill();
      await etcd.start();
      return store;
    },
    faults: {
      kill: () => etcd.kill(),
      start: () => etcd.start(),
      pause: () => etcd.pause(),
      resume: () => etcd.resume(),
      cut: () => proxy.cut(),
      cutAfter: (bytes, done) => proxy.cutAfter(bytes, done),
    },
    tearDown: async () => {
      await proxy[Symbol.asyncDispose]();
      await etcd[Symbol.asyncDispose]();
    },
  };
}

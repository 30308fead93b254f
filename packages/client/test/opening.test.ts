import { once } from "node:events";
import { type AddressInfo, connect as tcpConnect, createServer, type Socket } from "node:net";
import { expect, jest, test } from "@jest/globals";
import { connect } from "../src/index.ts";
import { FakeCluster, startProxy } from "./fake-cluster.ts";

jest.setTimeout(30_000);

/** What stands before several proxies: leads each connection to where the test says; undefined = into the void, as to a machine without power. */
async function startBalancer(target: (connection: number) => number | undefined) {
  const sockets = new Set<Socket>();
  let connections = 0;
  let open = 0;
  const server = createServer((client) => {
    const port = target((connections += 1));
    open += 1;
    client.on("error", () => undefined).on("close", () => (open -= 1));
    sockets.add(client);
    if (port === undefined) return void client.resume();
    const proxy = tcpConnect(port, "127.0.0.1").on("error", () => undefined);
    sockets.add(proxy);
    client.pipe(proxy).pipe(client);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** Connections that nobody has closed. */
    get open() {
      return open;
    },
    /** All that is open stays open, and nothing passes any more. */
    silence(): void {
      for (const socket of sockets) socket.unpipe().pause();
    },
    [Symbol.dispose](): void {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
const portOf = (address: string): number => Number(address.split(":")[1]);

test("behind one endpoint somebody may be dead: another connection is tried before the first is given up", async () => {
  await using proxy = await startProxy(new FakeCluster());
  using balancer = await startBalancer((n) => (n === 1 ? undefined : portOf(proxy.address)));
  let openThen = 0;
  await using sluice = await connect({
    endpoints: [balancer.address],
    onEvent: ({ type }) => (openThen = type === "connected" ? balancer.open : openThen),
  });
  expect(openThen).toBeGreaterThanOrEqual(2);
  expect((await sluice.admin.describeCluster()).clusterId).toBe("c");
});

test("a connection that goes silent is left within 3 s, and a new one made although every second is led into the void", async () => {
  const cluster = new FakeCluster();
  cluster.create("t", 1);
  await using proxy = await startProxy(cluster);
  using balancer = await startBalancer((n) => (n % 2 === 0 ? undefined : portOf(proxy.address)));
  await using sluice = await connect({ endpoints: [balancer.address] });
  await using producer = sluice.producer({ topic: "t" });
  await producer.send({ value: "a" });
  balancer.silence();
  const startMs = performance.now();
  expect((await producer.send({ value: "b" })).offset).toBe(1);
  expect(performance.now() - startMs).toBeLessThan(4_500);
});

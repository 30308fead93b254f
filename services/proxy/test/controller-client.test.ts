import { expect, test } from "@jest/globals";
import { SluiceError } from "@sluice/core/model";
import { ChannelPool } from "@sluice/rpc";
import { systemClock } from "@sluice/runtime/clock";
import { ControllerClient, type ControllerClientOptions } from "../src/controller-client.ts";
import { FakeCluster } from "./support/fake-cluster.ts";
import { startProxy } from "./support/proxy.ts";

test("a controller that is late is told of without its address, and with what it waits for", async () => {
  const channels = new ChannelPool({ clock: systemClock, clientId: "test" });
  const options = (metadataStale: boolean): ControllerClientOptions =>
    ({
      clock: systemClock,
      channels,
      view: { leader: { member: "controller-1" }, member: () => ({ endpoints: { rpc: "127.0.0.1:1" } }) },
      metadataStale: () => metadataStale,
    }) as unknown as ControllerClientOptions;
  const late = (): Promise<never> => Promise.reject(new SluiceError("TIMED_OUT", "no answer from 127.0.0.1:1 within 0.8 s"));
  const told = (metadataStale: boolean): Promise<unknown> =>
    new ControllerClient(options(metadataStale))
      .call(systemClock.monotonicMs(), new AbortController().signal, late)
      .catch((error: unknown) => error);
  expect(await told(false)).toMatchObject({
    code: "TIMED_OUT",
    message: "the controller did not answer in time; the change may have been made or not",
  });
  expect(await told(true)).toMatchObject({
    message: "the controller did not answer in time: the metadata store does not answer; the change may have been made or not",
  });
  channels.close();
});

test("the cluster is described as the last known while the metadata store does not answer", async () => {
  await using cluster = new FakeCluster();
  await cluster.start();
  await using p = await startProxy(cluster);
  expect((await p.admin.describeCluster({}, { timeoutMs: 5_000 })).metadataStale).toBe(false);
});

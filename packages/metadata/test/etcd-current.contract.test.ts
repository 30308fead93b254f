import { expect, test } from "@jest/globals";
import { ensureEtcdCurrent } from "@sluice/test-support";
import { describeMetadataStoreContract } from "../src/contract/index.ts";
import { etcdSubject } from "./etcd-subject.ts";

const current = await ensureEtcdCurrent();
if (current === undefined) {
  // Printed by the tool cache: why there is none. The system's etcd runs the same contract in etcd34.contract.test.ts.
  test("there is no current etcd on this machine", () => expect(current).toBeUndefined());
} else {
  describeMetadataStoreContract(
    etcdSubject(`etcd ${current.version}`, async () => current),
    { faults: true },
  );
}

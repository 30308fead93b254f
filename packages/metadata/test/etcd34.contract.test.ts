import { ensureEtcd34 } from "@sluice/test-support";
import { describeMetadataStoreContract } from "../src/contract/index.ts";
import { etcdSubject } from "./etcd-subject.ts";

describeMetadataStoreContract(etcdSubject("etcd of the system", ensureEtcd34), { faults: true });

import { describeMetadataStoreContract } from "../src/contract/index.ts";
import { embeddedSubject } from "./embedded-subject.ts";

describeMetadataStoreContract(embeddedSubject, { faults: false });

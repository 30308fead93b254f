import { afterAll, beforeAll, describe } from "@jest/globals";
import { describeEndings } from "./endings.ts";
import { describeLists } from "./lists.ts";
import { describeMultipart } from "./multipart.ts";
import { describeObjects } from "./objects.ts";
import { describeServer } from "./server.ts";
import { type ContractOptions, type Current, type Subject, tempName } from "./subject.ts";

export type { ContractOptions, ServerControl, Subject } from "./subject.ts";

/** What every ObjectStore must do, as tests. An adapter's test file calls this once for each way to open it. */
export function describeObjectStoreContract(options: ContractOptions): void {
  describe(`object store contract: ${options.name}`, () => {
    let subject: Subject | undefined;
    beforeAll(async () => {
      subject = await options.open();
    }, 600_000);
    afterAll(async () => {
      await subject?.close();
    }, 30_000);
    const current: Current = {
      get subject() {
        if (subject === undefined) throw new Error("the store did not open");
        return subject;
      },
      get store() {
        return this.subject.store;
      },
      folder: tempName,
    };
    describeObjects(current);
    describeLists(current);
    describeMultipart(current);
    describeEndings(current);
    if (options.server === true) describeServer(current);
  });
}

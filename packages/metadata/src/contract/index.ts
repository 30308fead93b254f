import { afterAll, beforeAll, describe, test } from "@jest/globals";
import { faultCases, leaseFaultCases, restartCases, watchFaultCases } from "./faults.ts";
import type { RunCase } from "./helpers.ts";
import { leaseCases } from "./leases.ts";
import type { MetadataContractServer, MetadataContractSubject } from "./subject.ts";
import { transactionCases } from "./transactions.ts";
import { compactionCases, watchCases } from "./watches.ts";

export type { MetadataContractFaults, MetadataContractServer, MetadataContractSubject } from "./subject.ts";

const CASE_TIMEOUT_MS = 60_000;

/**
 * The port's promises as tests. Every adapter goes through all of them; those about a network, a server that dies or hangs, and
 * connections that break run for subjects that have `faults: true`.
 */
export function describeMetadataStoreContract(subject: MetadataContractSubject, options: { readonly faults: boolean }): void {
  describe(`metadata store contract: ${subject.name}`, () => {
    let server: MetadataContractServer | undefined;
    let cases = 0;
    beforeAll(async () => {
      server = await subject.setUp();
    }, 120_000);
    afterAll(async () => {
      await server?.tearDown();
    });
    const runBody = async (body: Parameters<RunCase>[1]): Promise<void> => {
      if (server === undefined) throw new Error(`${subject.name} was not set up`);
      const context = { server, prefix: `case-${++cases}/`, store: await server.open() };
      try {
        await body(context);
      } finally {
        await context.store.close();
      }
    };
    const run: RunCase = (name, body) => test(name, () => runBody(body), CASE_TIMEOUT_MS);
    transactionCases(run);
    watchCases(run);
    leaseCases(run);
    restartCases(run);
    if (options.faults) {
      faultCases(run);
      leaseFaultCases(run);
      watchFaultCases(run);
    }
    compactionCases(run);
  });
}

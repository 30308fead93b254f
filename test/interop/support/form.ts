/*
 * What a run does, from the environment (`npm run test:interop` sets it from its arguments):
 *
 *   SLUICE_INTEROP=full            everything; else the short form, without the files `*.full.test.ts`
 *   SLUICE_INTEROP_TARGET=kafka    a real Apache Kafka instead of Sluice: measures baselines
 *   SLUICE_INTEROP_KAFKA=H:P,...   that one, which runs already; its topics are created with 4 partitions by themselves
 *   SLUICE_INTEROP_WRITE=1         what was measured goes to test/interop/results or baselines
 *   SLUICE_INTEROP_CHECKOUT=DIR    the files `*.checkout.test.ts`: a client's own tests, from a checkout of its repository
 *
 * Tests that do not belong to the form are not defined at all: a test that is switched off counts as failed.
 */
export const full: boolean = process.env["SLUICE_INTEROP"] === "full";
export const againstKafka: boolean = process.env["SLUICE_INTEROP_TARGET"] === "kafka";
export const writes: boolean = process.env["SLUICE_INTEROP_WRITE"] === "1";
/** Where everything has to be there; elsewhere a suite that lacks its toolchain says so and is left out. */
export const mustBeComplete: boolean = (process.env["CI"] ?? "") !== "" || full || againstKafka;
export const checkoutDir: string = process.env["SLUICE_INTEROP_CHECKOUT"] ?? "";
export const runningKafka: string = process.env["SLUICE_INTEROP_KAFKA"] ?? "";

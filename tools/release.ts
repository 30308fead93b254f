/**
 * `npm run test:release`: the long forms of tests that `npm test` runs short, for a release. One closing line `N passed, N failed`; what they
 * measured stands before it.
 */
import { jest, type Count } from "./jest.ts";

const FUZZ_SECONDS = 60;

const forms: ReadonlyArray<readonly [string, () => Promise<Count>]> = [
  [
    `hostile bytes at every listener for ${FUZZ_SECONDS} s`,
    () => jest("e2e", 300, 1, { files: ["test/e2e/fuzz"], environment: { SLUICE_TEST_FUZZ_SECONDS: String(FUZZ_SECONDS) }, loud: true }),
  ],
];

const total: Count = { passed: 0, failed: 0 };
for (const [name, form] of forms) {
  process.stdout.write(`\n== ${name}\n`);
  const { passed, failed } = await form();
  total.passed += passed;
  total.failed += failed;
}
process.stdout.write(`\n${total.passed} passed, ${total.failed} failed\n`);
process.exit(total.failed === 0 ? 0 : 1);

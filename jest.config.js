// Kinds of tests: unit (*.test.ts beside the sources' package), contract (*.contract.test.ts: real servers), e2e (test/e2e: real processes),
// interop (test/interop: Kafka clients that are not ours), chart (test/chart: the rendered chart, no cluster), kubernetes (test/kubernetes: by tools/kubernetes.ts alone), repo (test/repo). `node tools/test.ts` runs them in order within their time budgets.
const common = {
  transform: {},
  extensionsToTreatAsEsm: [".ts"],
  moduleFileExtensions: ["ts", "js", "mjs", "cjs", "json", "node"],
  testEnvironment: "node",
  injectGlobals: false,
  modulePathIgnorePatterns: ["<rootDir>/node_modules/"],
};
const kind = (name, testMatch, testPathIgnorePatterns = []) => ({
  ...common,
  displayName: name,
  testMatch,
  testPathIgnorePatterns: ["/node_modules/", ...testPathIgnorePatterns],
});

// Of interop: what only the whole run does, and what needs a checkout of somebody's repository (test/interop/README.md).
const leftOut = [
  ...(process.env["SLUICE_INTEROP"] === "full" ? [] : ["\\.full\\.test\\.ts$"]),
  ...((process.env["SLUICE_INTEROP_CHECKOUT"] ?? "") === "" ? ["\\.checkout\\.test\\.ts$"] : []),
];

export default {
  projects: [
    kind(
      "unit",
      ["<rootDir>/packages/**/*.test.ts", "<rootDir>/services/**/*.test.ts", "<rootDir>/sim/**/*.test.ts", "<rootDir>/bench/**/*.test.ts"],
      ["\\.contract\\.test\\.ts$"],
    ),
    kind("contract", ["<rootDir>/packages/**/*.contract.test.ts", "<rootDir>/services/**/*.contract.test.ts"]),
    kind("repo", ["<rootDir>/test/repo/**/*.test.ts"]),
    kind("chart", ["<rootDir>/test/chart/**/*.test.ts"]),
    kind("e2e", ["<rootDir>/test/e2e/**/*.test.ts"]),
    kind("interop", ["<rootDir>/test/interop/**/*.test.ts"], leftOut),
    kind("kubernetes", ["<rootDir>/test/kubernetes/**/*.test.ts"]),
  ],
  maxWorkers: 2,
  workerIdleMemoryLimit: "1GB",
};

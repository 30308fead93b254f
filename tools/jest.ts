/** Runs one of the jest projects and counts its tests. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "./run.ts";

export interface Count {
  passed: number;
  failed: number;
}
interface JestReport {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numRuntimeErrorTestSuites: number;
}
export interface JestOptions {
  /** Test files whose path holds one of these; default all of the project. */
  readonly files?: readonly string[];
  readonly environment?: NodeJS.ProcessEnv;
  /** Shows the output also when all is well. */
  readonly loud?: boolean;
}

/** A skipped test counts as failed: a suite that quietly does less than it says proves nothing. */
export async function jest(project: string, budgetSeconds: number, workers = 2, options: JestOptions = {}): Promise<Count> {
  const temp = mkdtempSync(join(tmpdir(), "sluice-test-"));
  try {
    const report = join(temp, "report.json");
    const result = await run(
      [
        "node",
        "--experimental-vm-modules",
        "--disable-warning=ExperimentalWarning",
        "node_modules/jest/bin/jest.js",
        ...(options.files ?? []),
        "--selectProjects",
        project,
        `--maxWorkers=${workers}`,
        "--json",
        `--outputFile=${report}`,
      ],
      { budgetSeconds, quiet: options.loud !== true, environment: options.environment ?? {} },
    );
    if (!existsSync(report)) return { passed: 0, failed: 1 };
    const json = JSON.parse(readFileSync(report, "utf8")) as JestReport;
    const failed = json.numFailedTests + json.numRuntimeErrorTestSuites + json.numPendingTests;
    return { passed: json.numPassedTests, failed: failed === 0 && !result.ok ? 1 : failed };
  } finally {
    rmSync(temp, { recursive: true, force: true });
  }
}

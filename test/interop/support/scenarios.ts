import type { Outcome } from "./judge.ts";

/** A scenario throws when something is not as it should be. */
export type Scenario = () => Promise<void>;

/** Runs scenarios one after the other; one that fails does not end the rest. */
export async function runScenarios(scenarios: Readonly<Record<string, Scenario>>, timeoutMs = 60_000): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const [name, scenario] of Object.entries(scenarios)) {
    let timer: NodeJS.Timeout | undefined;
    try {
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new Error(`not within ${timeoutMs} ms`)), timeoutMs);
      });
      await Promise.race([scenario(), late]);
      outcomes.push({ name, status: "passed" });
    } catch (error) {
      outcomes.push({ name, status: "failed", detail: (error as Error).message });
    } finally {
      clearTimeout(timer);
    }
  }
  return outcomes;
}

/*
 * A reporter of Node's test runner: a line of JSON for each test of the file, which is an outcome (`../support/judge.ts`).
 * What is nested in a test is part of it. Runs in the process of the tests.
 */
interface TestEvent {
  readonly type: string;
  readonly data: {
    readonly name: string;
    readonly nesting: number;
    readonly skip?: boolean | string;
    readonly todo?: boolean | string;
    readonly details?: { readonly error?: Error & { readonly cause?: unknown } };
  };
}
const DETAIL_CHARS = 1_500;

export default async function* report(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  for await (const { type, data } of events) {
    if ((type !== "test:pass" && type !== "test:fail") || data.nesting > 0) continue;
    const skipped = data.skip !== undefined || data.todo !== undefined;
    const status = skipped ? "skipped" : type === "test:pass" ? "passed" : "failed";
    yield `${JSON.stringify({ name: data.name, status, ...(status === "failed" ? { detail: wordsOf(data.details?.error) } : {}) })}\n`;
  }
}

function wordsOf(error: (Error & { readonly cause?: unknown }) | undefined): string {
  const cause = error?.cause;
  const text = cause instanceof Error ? (cause.stack ?? cause.message) : (error?.message ?? "");
  return text.slice(0, DETAIL_CHARS);
}

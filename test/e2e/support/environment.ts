import { homedir } from "node:os";
import { join } from "node:path";

/** What `part` starts sees these variables; `undefined` takes one away. They are as before when it is over. */
export async function withEnvironment<T>(changed: Readonly<Record<string, string | undefined>>, part: () => Promise<T>): Promise<T> {
  const set = (variables: Readonly<Record<string, string | undefined>>): void => {
    for (const [key, value] of Object.entries(variables)) {
      if (value === undefined) delete process.env[key];
      else process.env[key] = value;
    }
  };
  const before = Object.fromEntries(Object.keys(changed).map((key) => [key, process.env[key]]));
  set(changed);
  try {
    return await part();
  } finally {
    set(before);
  }
}

/** `NODE_OPTIONS` of now, and these. */
export const moreNodeOptions = (...options: readonly string[]): string => [process.env["NODE_OPTIONS"] ?? "", ...options].join(" ").trim();

/** Where compiled code is kept, as in `bin/sluice`: what a service has compiled once it loads at its next start, in half the time. */
export const compileCache = (): string =>
  process.env["NODE_COMPILE_CACHE"] ?? join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "sluice/compile");

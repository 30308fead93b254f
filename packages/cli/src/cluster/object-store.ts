import { stat } from "node:fs/promises";
import { openObjectStore, type OpenOptions } from "@sluice/object-store";
import { silentLogger, systemClock, systemRandom } from "@sluice/runtime";
import { messageOf, UsageError } from "../exit.ts";

/** What no service could use is found before a folder is made. Whether an S3 server answers is for the services to find out. */
export async function checkObjectStore(objectStore: string, credentials: OpenOptions["credentials"]): Promise<void> {
  if (/^[A-Za-z][A-Za-z0-9+.-]*:/.test(objectStore) && !objectStore.startsWith("file:")) {
    const components = { clock: systemClock, random: systemRandom, logger: silentLogger };
    try {
      await (await openObjectStore(objectStore, { ...components, ...(credentials && { credentials }) })).close();
    } catch (cause) {
      // The URL is not shown: somebody has put a secret there.
      throw new UsageError(`--object-store: ${messageOf(cause)}`, { cause });
    }
    return;
  }
  const found = await stat(objectStore.replace(/^file:(\/\/)?/, "")).catch(() => undefined);
  if (found?.isDirectory() === false) throw new UsageError(`--object-store ${objectStore}: not a folder`);
}

import { writeSync } from "node:fs";
import { codeOf } from "@sluice/core/model";
import { systemClock } from "@sluice/runtime";
import { openEmbeddedMetadata } from "../src/index.ts";

/* node embedded-process.ts FILE "open" | "write and die": another process on the file of the embedded store. */
const [path = "", what = ""] = process.argv.slice(2);
try {
  const store = openEmbeddedMetadata({ path, clock: systemClock });
  writeSync(1, "opened\n");
  if (what === "write and die") {
    const lease = await store.lease(60_000);
    const value = new Uint8Array(100);
    await store.txn({ compare: [], then: [{ kind: "put", key: "leased", value, lease: lease.id }] });
    let revision = 0;
    for (let i = 0; i < 49; i++) revision = (await store.txn({ compare: [], then: [{ kind: "put", key: `k${i}`, value }] })).revision;
    writeSync(1, `answered ${revision}\n`);
    process.kill(process.pid, "SIGKILL");
  }
  await store.close();
} catch (error) {
  writeSync(1, `${codeOf(error)}\n`);
}

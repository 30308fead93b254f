// Runs in the pod of `helm test`: writes records with the sluice command, reads them back, compares, and removes its topic.
import { execFileSync } from "node:child_process";

const topic = process.env.TOPIC;
const sluice = (args, input = "") =>
  execFileSync(process.execPath, ["/app/packages/cli/src/main.ts", ...args], {
    input,
    encoding: "utf8",
    stdio: ["pipe", "pipe", "inherit"],
  });

const written = Array.from({ length: 100 }, (_, i) => `record ${i} of ${topic}`);
sluice(["topic", "delete", topic, "--if-exists"]);
sluice(["topic", "create", topic, "--partitions", "1"]);
sluice(["produce", topic], `${written.join("\n")}\n`);
const read = sluice(["consume", topic, "--exit-on-end"]).trimEnd().split("\n");
sluice(["topic", "delete", topic]);
if (read.join("\n") !== written.join("\n")) {
  console.error(`${written.length} records written, ${read.length} read, and they differ`);
  process.exit(1);
}
console.log(`${read.length} records written and read back in order`);

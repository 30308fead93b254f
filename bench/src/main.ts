import { chain } from "./chain.ts";

const [command, ...args] = process.argv.slice(2);
if (command === "chain") await chain(args);
else {
  process.stderr.write(
    "usage: npm run bench -- chain [--json FILE] [--rounds N] [--seconds S] [--dir DIR] [--points inner-65536,whole-4096-one,...]\n",
  );
  process.exitCode = 2;
}

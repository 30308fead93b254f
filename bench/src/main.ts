import { chain } from "./chain.ts";
import { kafka } from "./kafka.ts";

const [command, ...args] = process.argv.slice(2);
if (command === "chain") await chain(args);
else if (command === "kafka") await kafka(args);
else {
  process.stderr.write(
    "usage: npm run bench -- chain [--json FILE] [--rounds N] [--seconds S] [--dir DIR] [--points inner-65536,whole-4096-one,...]\n" +
      '       npm run bench -- kafka [--json FILE] [--rounds N] [--scale X] [--dir DIR] [--points "produce 1 KiB,light,..."]\n',
  );
  process.exitCode = 2;
}

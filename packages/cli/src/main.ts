import { VERSION } from "./version.ts";

// Nothing is imported before the command is known: a shell that completes or checks versions calls this often.
const argv = process.argv.slice(2);
if (argv.length === 1 && (argv[0] === "--version" || argv[0] === "-V")) {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0);
    process.stderr.write(`sluice: standard output: ${error.message}\n`);
    process.exit(1);
  });
  process.stdout.write(`sluice ${VERSION}\n`);
} else {
  const { runProgram } = await import("./program.ts");
  const { processTerminal } = await import("./terminal.ts");
  // Not left to an empty event loop: a connection that lingers must not keep a finished command alive.
  process.exit(await runProgram(argv, processTerminal()));
}

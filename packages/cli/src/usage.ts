import type { Command, Option } from "commander";
import { nearest } from "./nearest.ts";

/**
 * What of a command line is wrong in a way that commander would tell of too late: it speaks of options that are missing before those that it does
 * not know, and before the arguments. Undefined = it may go on.
 */
export function mistakeIn(program: Command, argv: readonly string[]): { readonly command: Command; readonly text: string } | undefined {
  let command = program;
  let at = 0;
  for (;;) {
    const next = command.commands.find((sub) => sub.name() === argv[at]);
    if (next === undefined) break;
    command = next;
    at++;
  }
  if (command === program || command.commands.length > 0) return undefined;
  const given = new Set<Option>();
  let operands = 0;
  for (; at < argv.length; at++) {
    const word = argv[at]!;
    if (word === "--") {
      operands += argv.length - at - 1;
      break;
    }
    if (word === "--help" || word === "-h") return undefined;
    if (!/^-(-|[A-Za-z])/.test(word)) {
      operands++;
      continue;
    }
    const name = word.startsWith("--") ? word.split("=", 1)[0]! : word.slice(0, 2);
    const option = command.options.find(({ long, short }) => long === name || short === name);
    if (option === undefined) return { command, text: unknownOption(name, command) };
    given.add(option);
    const hasValue = word.startsWith("--") ? word.includes("=") : word.length > 2;
    if (option.required && !hasValue) at++;
  }
  const missing = command.registeredArguments.filter((argument) => argument.required).slice(operands);
  if (missing.length === 0) return undefined;
  const options = command.options.filter((option) => option.mandatory && !given.has(option) && option.defaultValue === undefined);
  const also = options.length === 0 ? "" : `, and required option ${options.map(({ flags }) => `'${flags}'`).join(", ")}`;
  return { command, text: `missing required argument ${missing.map((argument) => `'${argument.name()}'`).join(", ")}${also}` };
}
function unknownOption(name: string, command: Command): string {
  const meant = nearest(
    name,
    command.options.flatMap(({ long }) => (long === undefined ? [] : [long])),
  );
  return `unknown option '${name}'${meant === undefined ? "" : `\n(Did you mean ${meant}?)`}`;
}

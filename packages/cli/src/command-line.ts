import { basename, delimiter, dirname, isAbsolute } from "node:path";

/** bin/sluice says under which name it was called; the services' own environment has no such name. */
export const COMMAND_VARIABLE = "SLUICE_COMMAND";

/** A word as a shell takes it. */
const quoted = (word: string): string => (/^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);

/** What a person types for this program: its name where the PATH finds it, else the way it was called. */
export function commandName(env: Readonly<Record<string, string | undefined>>): string {
  const called = env[COMMAND_VARIABLE] ?? "";
  if (called === "") return "sluice";
  const inPath = isAbsolute(called) && (env["PATH"] ?? "").split(delimiter).includes(dirname(called));
  return quoted(inPath ? basename(called) : called);
}
const name = commandName(process.env);

/** A call of this program that can be pasted into the shell that this one was called from. Words in capitals are for the reader to fill in. */
export const typed = (...words: readonly (string | number)[]): string => [name, ...words.map((word) => quoted(String(word)))].join(" ");

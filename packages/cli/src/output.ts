import type { Terminal } from "./terminal.ts";

/** `-o`: a table for people, one JSON document, or one JSON object a line. */
export type OutputFormat = "table" | "json" | "jsonl";
export const outputFormats: readonly OutputFormat[] = ["table", "json", "jsonl"];

/** A column of the table: its title and the text of a row. */
export interface Column<T> {
  readonly title: string;
  readonly text: (row: T) => string | number | boolean | null | undefined;
}

/** Control characters of names and messages that others chose must not reach the terminal. */
// oxlint-disable-next-line no-control-regex -- these are the characters that are replaced
const printable = (text: string): string => text.replaceAll(/[\u0000-\u001f\u007f-\u009f]/g, "?");

/** Columns are as wide as their widest cell; the last one is not padded. Empty cells show as "-". */
export function formatTable<T>(rows: readonly T[], columns: readonly Column<T>[]): string {
  const cells = [
    columns.map((column) => column.title.toUpperCase()),
    ...rows.map((row) =>
      columns.map((column) => {
        const value = column.text(row);
        return value === undefined || value === null || value === "" ? "-" : printable(String(value));
      }),
    ),
  ];
  const widths = columns.map((_, i) => Math.max(...cells.map((line) => line[i]!.length)));
  const last = columns.length - 1;
  return cells.map((line) => `${line.map((cell, i) => (i === last ? cell : cell.padEnd(widths[i]!))).join("  ")}\n`).join("");
}

/** Rows of one kind. In JSON they are written as given, not as the columns show them. */
export async function printRows<T>(
  terminal: Terminal,
  format: OutputFormat,
  rows: readonly T[],
  columns: readonly Column<T>[],
): Promise<void> {
  if (format === "table") await terminal.out(formatTable(rows, columns));
  else if (format === "json") await terminal.out(`${JSON.stringify(rows, undefined, 2)}\n`);
  else for (const row of rows) await terminal.out(`${JSON.stringify(row)}\n`);
}
/** One thing; `table` is what a person gets to read. */
export async function printOne(terminal: Terminal, format: OutputFormat, value: unknown, table: string): Promise<void> {
  if (format === "table") await terminal.out(table);
  else await terminal.out(`${JSON.stringify(value, undefined, format === "json" ? 2 : undefined)}\n`);
}
/** `1 record`, `2 records`. */
export const plural = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`;

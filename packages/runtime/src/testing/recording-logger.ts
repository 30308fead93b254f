import type { Logger, LogLevel } from "../logging.ts";

export interface LogLine {
  readonly level: Exclude<LogLevel, "silent">;
  readonly event: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Keeps every line, its children's too, with the children's fields merged in. */
export class RecordingLogger implements Logger {
  readonly lines: LogLine[];
  readonly #fields: Record<string, unknown>;

  constructor(lines: LogLine[] = [], fields: Record<string, unknown> = {}) {
    this.lines = lines;
    this.#fields = fields;
  }
  debug(event: string, fields?: Record<string, unknown>): void {
    this.#add("debug", event, fields);
  }
  info(event: string, fields?: Record<string, unknown>): void {
    this.#add("info", event, fields);
  }
  warn(event: string, fields?: Record<string, unknown>): void {
    this.#add("warn", event, fields);
  }
  error(event: string, fields?: Record<string, unknown>): void {
    this.#add("error", event, fields);
  }
  child(fields: Record<string, unknown>): RecordingLogger {
    return new RecordingLogger(this.lines, { ...this.#fields, ...fields });
  }
  find(event: string): LogLine | undefined {
    return this.lines.find((line) => line.event === event);
  }
  events(): string[] {
    return this.lines.map((line) => line.event);
  }
  #add(level: LogLine["level"], event: string, fields: Record<string, unknown> = {}): void {
    this.lines.push({ level, event, fields: { ...this.#fields, ...fields } });
  }
}

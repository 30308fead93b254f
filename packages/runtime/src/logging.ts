import { pino } from "pino";

/** Structured log lines: one per state change, with ids and epoch. `event` is a short fixed phrase, everything that varies is a field. */
export interface Logger {
  debug(event: string, fields?: Record<string, unknown>): void;
  info(event: string, fields?: Record<string, unknown>): void;
  warn(event: string, fields?: Record<string, unknown>): void;
  error(event: string, fields?: Record<string, unknown>): void;
  child(fields: Record<string, unknown>): Logger;
}
export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

interface PinoLike {
  debug(o: object, m: string): void;
  info(o: object, m: string): void;
  warn(o: object, m: string): void;
  error(o: object, m: string): void;
  child(o: object): PinoLike;
}
function wrap(p: PinoLike): Logger {
  return {
    debug: (event, fields = {}) => p.debug(fields, event),
    info: (event, fields = {}) => p.info(fields, event),
    warn: (event, fields = {}) => p.warn(fields, event),
    error: (event, fields = {}) => p.error(fields, event),
    child: (fields) => wrap(p.child(fields)),
  };
}
/** JSON lines on standard error (standard output belongs to data). An Error under the key `err` is written with its stack and causes. */
export function createLogger(options: { readonly level: LogLevel; readonly fields?: Record<string, unknown> }): Logger {
  const destination = pino.destination({ dest: 2, sync: true });
  return wrap(
    pino(
      { level: options.level, base: options.fields ?? {}, timestamp: pino.stdTimeFunctions.isoTime },
      destination,
    ) as unknown as PinoLike,
  );
}
export const silentLogger: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => silentLogger };

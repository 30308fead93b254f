import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { isSluiceError, SluiceError } from "@sluice/core/model";
import { decodeKey, encodeKey, prefixEnd } from "../key-range.ts";
import type { KeyValue, WatchEvent } from "../port.ts";

/*
 * The file (SQLite, user_version 1):
 *
 *   meta(name, value)     revision: of the last change, 1 when new; compacted: history below it is gone; lease: last id given out
 *   kv(key, ...)          what is there now; keys are UTF-8 blobs, so that their order is the order of their bytes
 *   history(rev, sub,...) every change since `compacted`, sub = its place within the revision; value NULL = deleted
 *
 * Leases are not stored: they belong to the process, and only one process can have the file open.
 */
const SCHEMA_VERSION = 1;
const SCHEMA = `
  CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
  CREATE TABLE kv(key BLOB PRIMARY KEY, value BLOB NOT NULL, created INTEGER NOT NULL, modified INTEGER NOT NULL,
    version INTEGER NOT NULL, lease INTEGER NOT NULL) WITHOUT ROWID;
  CREATE INDEX kv_lease ON kv(lease) WHERE lease <> 0;
  CREATE TABLE history(rev INTEGER NOT NULL, sub INTEGER NOT NULL, key BLOB NOT NULL, value BLOB, created INTEGER NOT NULL,
    version INTEGER NOT NULL, lease INTEGER NOT NULL, PRIMARY KEY(rev, sub)) WITHOUT ROWID;
  INSERT INTO meta VALUES ('revision', 1), ('compacted', 1), ('lease', 0);
  PRAGMA user_version = ${SCHEMA_VERSION};
`;
const SQLITE_BUSY = 5;
const NO_END = new Uint8Array([0xff]);

interface Row {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
  readonly created: number;
  readonly modified: number;
  readonly version: number;
  readonly lease: number;
}
interface HistoryRow {
  readonly rev: number;
  readonly key: Uint8Array;
  readonly value: Uint8Array | null;
  readonly created: number;
  readonly version: number;
  readonly lease: number;
}

const entryOf = (row: Row): KeyValue => ({
  key: decodeKey(row.key),
  value: row.value,
  createRevision: row.created,
  modRevision: row.modified,
  version: row.version,
  lease: String(row.lease),
});
const eventOf = (row: HistoryRow): WatchEvent =>
  row.value === null
    ? { type: "delete", key: decodeKey(row.key), modRevision: row.rev }
    : { type: "put", entry: entryOf({ ...row, value: row.value, modified: row.rev }) };

/** The statements over one open file. All calls are synchronous; the caller brackets changes by `begin` and `commit`. */
export class Tables {
  readonly #db: DatabaseSync;
  readonly #get: StatementSync;
  readonly #list: StatementSync;
  readonly #put: StatementSync;
  readonly #delete: StatementSync;
  readonly #ofLease: StatementSync;
  readonly #record: StatementSync;
  readonly #changes: StatementSync;
  readonly #lastChange: StatementSync;
  readonly #setMeta: StatementSync;

  constructor(path: string) {
    this.#db = openDatabase(path);
    const db = this.#db;
    this.#get = db.prepare("SELECT * FROM kv WHERE key = ?");
    this.#list = db.prepare("SELECT * FROM kv WHERE key >= ? AND key < ? ORDER BY key");
    this.#put = db.prepare("INSERT OR REPLACE INTO kv VALUES (?, ?, ?, ?, ?, ?)");
    this.#delete = db.prepare("DELETE FROM kv WHERE key = ?");
    this.#ofLease = db.prepare("SELECT * FROM kv WHERE lease = ? AND lease <> 0 ORDER BY key");
    this.#record = db.prepare("INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?)");
    this.#changes = db.prepare("SELECT * FROM history WHERE rev >= ? AND rev <= ? AND key >= ? AND key < ? ORDER BY rev, sub LIMIT ?");
    this.#lastChange = db.prepare("SELECT count(*) AS n FROM history WHERE rev = ? AND key >= ? AND key < ?");
    this.#setMeta = db.prepare("UPDATE meta SET value = ? WHERE name = ?");
  }

  meta(name: "revision" | "compacted" | "lease"): number {
    return this.#db.prepare("SELECT value FROM meta WHERE name = ?").get(name)?.["value"] as number;
  }
  setMeta(name: "revision" | "compacted" | "lease", value: number): void {
    this.#setMeta.run(value, name);
  }

  get(key: string): KeyValue | undefined {
    const row = this.#get.get(encodeKey(key)) as unknown as Row | undefined;
    return row === undefined ? undefined : entryOf(row);
  }
  list(prefix: string): KeyValue[] {
    const [from, end] = rangeOf(prefix);
    return (this.#list.all(from, end) as unknown as Row[]).map(entryOf);
  }
  /** Keys bound to the lease, or to any lease for "any". */
  ofLease(lease: number | "any"): KeyValue[] {
    const rows = lease === "any" ? this.#db.prepare("SELECT * FROM kv WHERE lease <> 0 ORDER BY key").all() : this.#ofLease.all(lease);
    return (rows as unknown as Row[]).map(entryOf);
  }

  put(revision: number, sub: number, key: string, value: Uint8Array, lease: number): void {
    const bytes = encodeKey(key);
    const before = this.#get.get(bytes) as unknown as Row | undefined;
    const created = before?.created ?? revision;
    const version = (before?.version ?? 0) + 1;
    this.#put.run(bytes, value, created, revision, version, lease);
    this.#record.run(revision, sub, bytes, value, created, version, lease);
  }
  /** False when there was no such key. */
  delete(revision: number, sub: number, key: string): boolean {
    const bytes = encodeKey(key);
    if (this.#delete.run(bytes).changes === 0) return false;
    this.#record.run(revision, sub, bytes, null, 0, 0, 0);
    return true;
  }

  /**
   * Changes under `prefix` from revision `from` to `to`, about `eventsMax` of them: whole revisions only.
   * `upTo` is the last revision that was looked at.
   */
  changes(prefix: string, from: number, to: number, eventsMax: number): { events: WatchEvent[]; upTo: number } {
    const [start, end] = rangeOf(prefix);
    let rows = this.#changes.all(from, to, start, end, eventsMax) as unknown as HistoryRow[];
    if (rows.length < eventsMax) return { events: rows.map(eventOf), upTo: to };
    const last = rows.at(-1)?.rev ?? to;
    const count = this.#lastChange.get(last, start, end)?.["n"] as number;
    const have = rows.filter((row) => row.rev === last).length;
    if (have < count) {
      const rest = this.#changes.all(last, last, start, end, count) as unknown as HistoryRow[];
      rows = [...rows, ...rest.slice(have)];
    }
    return { events: rows.map(eventOf), upTo: last };
  }

  forgetHistoryBelow(revision: number): void {
    this.#db.prepare("DELETE FROM history WHERE rev < ?").run(revision);
  }

  begin(): void {
    this.#db.exec("BEGIN IMMEDIATE");
  }
  commit(): void {
    this.#db.exec("COMMIT");
  }
  rollback(): void {
    if (this.#db.isTransaction) this.#db.exec("ROLLBACK");
  }
  close(): void {
    this.#db.close();
  }
}

function rangeOf(prefix: string): [Uint8Array, Uint8Array] {
  const from = encodeKey(prefix);
  return [from, prefixEnd(from) ?? NO_END];
}

/**
 * Exclusive locking mode: the connection takes SQLite's file lock with its first transaction and keeps it until it closes or the
 * process dies, so a second process (or a second open in this one) is refused at once and no lock file can be left behind.
 */
function openDatabase(path: string): DatabaseSync {
  if (path !== ":memory:") mkdirSync(dirname(path), { recursive: true });
  let db: DatabaseSync | undefined;
  try {
    db = new DatabaseSync(path, { timeout: 0 });
    db.exec("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;");
    db.exec("BEGIN EXCLUSIVE");
    const version = db.prepare("PRAGMA user_version").get()?.["user_version"];
    if (version === 0) db.exec(SCHEMA);
    else if (version !== SCHEMA_VERSION) {
      throw new SluiceError("VERSION_MISMATCH", `${path} has format ${String(version)}, this version reads ${SCHEMA_VERSION}`);
    }
    db.exec("COMMIT");
    return db;
  } catch (error) {
    db?.close();
    if (isSluiceError(error)) throw error;
    const busy = (error as { errcode?: number }).errcode === SQLITE_BUSY;
    if (busy) throw new SluiceError("FOLDER_IN_USE", `${path} is open in another process`, { cause: error });
    throw new SluiceError("METADATA_UNAVAILABLE", `${path} cannot be opened`, { cause: error });
  }
}

import { describe, expect, test } from "@jest/globals";
import { codeOf } from "@sluice/core/model";
import {
  advertisedAddress,
  configJsonSchema,
  configMarkdown,
  createListener,
  defineConfig,
  listenerKeys,
  listenerOf,
  loadConfig,
  mergeConfig,
  optionalListenerKeys,
  optionalListenerOf,
  printableConfig,
} from "../src/index.ts";

const def = defineConfig({
  ...listenerKeys("grpc", "127.0.0.1:7070", "Client API"),
  "cache.tailBytes": { type: "bytes", default: "64MiB", min: 1024, doc: "Tail cache." },
  "flush.interval": { type: "duration", default: 5_000, max: 60_000, doc: "Flush." },
  workers: { type: "int", default: 2, min: 1, max: 64, doc: "Workers." },
  mode: { type: "enum", values: ["fast", "safe"], default: "safe", doc: "Mode | of work." },
  verbose: { type: "bool", default: false, doc: "More lines." },
  "etcd.endpoints": { type: "list", required: true, min: 1, doc: "etcd." },
  "data.dir": { type: "path", doc: "Data." },
  "s3.secretKey": { type: "string", secret: true, doc: "Secret." },
});
const env = { SLUICE_ETCD_ENDPOINTS: "a:2379, b:2379" };
const why = (fn: () => unknown): string => {
  try {
    fn();
  } catch (error) {
    expect(codeOf(error)).toBe("INVALID_CONFIG");
    return (error as Error).message;
  }
  throw new Error("nothing was thrown");
};

describe("configuration", () => {
  test("defaults, environment names from keys, types by inference", () => {
    const config = loadConfig(def, { env: { ...env, SLUICE_CACHE_TAIL_BYTES: "64KiB", SLUICE_LISTENER_GRPC_BIND: "127.0.0.1:1" } });
    const bytes: number = config["cache.tailBytes"];
    const mode: "fast" | "safe" = config.mode;
    const dir: string | undefined = config["data.dir"];
    expect([bytes, mode, dir]).toEqual([65_536, "safe", undefined]);
    expect(config["etcd.endpoints"]).toEqual(["a:2379", "b:2379"]);
    expect(config["listener.grpc.bind"]).toBe("127.0.0.1:1");
  });

  test("flag over environment over file over default", () => {
    const file = { workers: 3, verbose: true, flush: { interval: "100ms" }, "data.dir": "/file" };
    const both = { ...env, SLUICE_WORKERS: "4", SLUICE_DATA_DIR: "/env" };
    const config = loadConfig(def, { argv: ["--workers=5", "--no-verbose", "--mode", "fast"], env: both, file });
    expect(config).toMatchObject({ workers: 5, verbose: false, mode: "fast", "data.dir": "/env", "flush.interval": 100 });
    expect(loadConfig(def, { argv: ["--verbose"], env }).verbose).toBe(true);
  });

  test("a name that others share: behind the own name, and empty is nothing", () => {
    const shared = defineConfig({ "tracing.endpoint": { type: "string", sharedEnvironment: "OTEL_ENDPOINT", doc: "x" } });
    const endpoint = (given: Record<string, string>, argv: string[] = []) => loadConfig(shared, { env: given, argv })["tracing.endpoint"];
    expect(endpoint({ OTEL_ENDPOINT: "a" })).toBe("a");
    expect(endpoint({ OTEL_ENDPOINT: "" })).toBeUndefined();
    expect(endpoint({ OTEL_ENDPOINT: "a", SLUICE_TRACING_ENDPOINT: "b" })).toBe("b");
    expect(endpoint({ OTEL_ENDPOINT: "a" }, ["--tracing.endpoint=c"])).toBe("c");
    expect(configMarkdown(shared)).toContain("`SLUICE_TRACING_ENDPOINT`, else `OTEL_ENDPOINT`");
  });
  test("a file is named by flag or environment", () => {
    const readFile = (path: string): string => (path === "/etc/s.json" ? '{"workers": 7}' : "{");
    expect(loadConfig(def, { argv: ["--config", "/etc/s.json"], env, readFile }).workers).toBe(7);
    expect(loadConfig(def, { env: { ...env, SLUICE_CONFIG: "/etc/s.json" }, readFile }).workers).toBe(7);
    expect(why(() => loadConfig(def, { argv: ["--config", "/bad"], env, readFile }))).toMatch(/\/bad cannot be read/);
  });

  test.each([
    [{ argv: ["--wrokers", "3"] }, /flag --wrokers is unknown; did you mean workers\?/],
    [{ argv: ["workers"] }, /argument "workers" is unknown/],
    [{ argv: ["--workers"] }, /--workers needs a value: an integer, at least 1, at most 64/],
    [{ env: { ...env, SLUICE_WORKER: "3" } }, /SLUICE_WORKER is unknown; did you mean SLUICE_WORKERS\?/],
    [{ file: { cache: { tailByte: 3 } } }, /key cache.tailByte in file is unknown/],
    [{ file: { constructor: 3 } }, /key constructor in file is unknown/],
    [{ argv: ["--workers", "65"] }, /workers \(flag --workers\) is "65"; it takes an integer, at least 1, at most 64/],
    [{ env: { ...env, SLUICE_FLUSH_INTERVAL: "5" } }, /flush.interval \(environment SLUICE_FLUSH_INTERVAL\) is "5"; it takes a time/],
    [{ file: { "cache.tailBytes": "1KB" } }, /is "1KB"; it takes a size such as 64KiB or 1MiB, at least 1KiB/],
    [{ file: { mode: "slow" } }, /it takes one of fast, safe/],
    [{ file: { "listener.grpc.bind": "localhost" } }, /it takes host:port/],
    [{ file: { verbose: "yes" } }, /it takes true or false/],
  ])("refuses %j and says why", (sources, message) => {
    expect(why(() => loadConfig(def, { env, ...sources }))).toMatch(message);
  });

  test("a required key, and keys of other programs in the same environment", () => {
    expect(why(() => loadConfig(def, {}))).toMatch(/etcd.endpoints is required: .*SLUICE_ETCD_ENDPOINTS/);
    const other = defineConfig({ "other.thing": { type: "int", doc: "x" } });
    const shared = { ...env, SLUICE_OTHER_THING: "1", SLUICE_ENDPOINT: "h:1" };
    expect(loadConfig(def, { env: shared, alsoKnown: [other] }).workers).toBe(2);
    expect(why(() => loadConfig(def, { env: shared }))).toMatch(/SLUICE_OTHER_THING/);
  });

  test("secrets come from files, never from the command line, and are never printed", () => {
    const readFile = (path: string): string => (path === "/run/key" ? "hunter2\n" : "");
    const config = loadConfig(def, { argv: ["--s3.secretKey", "file:/run/key"], env, readFile });
    expect(config["s3.secretKey"]).toBe("hunter2");
    expect(JSON.stringify(printableConfig(def, config))).not.toContain("hunter2");
    expect(why(() => loadConfig(def, { argv: ["--s3.secretKey", "hunter2"], env }))).not.toContain("hunter2");
    expect(why(() => loadConfig(def, { env: { ...env, SLUICE_S3_SECRET_KEY: "x".repeat(5_000) } }))).toMatch(/\(secret\)/);
  });

  test("two keys of one environment name are a fault of the program", () => {
    const twice = () => defineConfig({ "a.bC": { type: "int", doc: "" }, "a.b.c": { type: "int", doc: "" } });
    expect(why(twice)).toMatch(/share the environment name SLUICE_A_B_C/);
    expect(why(() => mergeConfig(def, defineConfig({ workers: { type: "int", doc: "" } })))).toMatch(/workers is declared twice/);
  });

  test("the reference has a row for each key, the schema a property", () => {
    const table = configMarkdown(def);
    expect(table).toContain(
      "| `cache.tailBytes` | `SLUICE_CACHE_TAIL_BYTES` | a size such as 64KiB or 1MiB, at least 1KiB | `64MiB` | Tail cache. |",
    );
    expect(table).toContain("`5s`");
    expect(table).toContain("Mode \\| of work.");
    const schema = configJsonSchema(def, "Test") as { properties: Record<string, unknown>; additionalProperties: boolean };
    expect(Object.keys(schema.properties)).toEqual(Object.keys(def.spec));
    expect(schema.additionalProperties).toBe(false);
  });
});

describe("listeners", () => {
  test.each(["0.0.0.0:1", "[::]:1", "10.0.0.7:1", "broker-1:1", ":1"])("%s needs an explicit allowUnauthenticated", (bind) => {
    expect(why(() => createListener("grpc", { bind }))).toMatch(/open to others without authentication/);
    expect(createListener("grpc", { bind, allowUnauthenticated: true }).port).toBe(1);
  });
  test.each(["127.0.0.1:1", "127.3.4.5:1", "localhost:1", "[::1]:1"])("%s is loopback", (bind) => {
    expect(createListener("grpc", { bind }).allowUnauthenticated).toBe(false);
  });
  test("what is advertised", () => {
    const config = loadConfig(def, { env: { ...env, SLUICE_LISTENER_GRPC_ADVERTISED: "proxy.example:0" } });
    expect(advertisedAddress(listenerOf(config, "grpc"), 4_711)).toBe("proxy.example:4711");
    expect(advertisedAddress(createListener("x", { bind: "[::1]:0" }), 9)).toBe("[::1]:9");
  });
});

describe("a listener that is open only when its address is given", () => {
  const outside = defineConfig(optionalListenerKeys("outside", "Clients outside"));
  const listener = (env: Record<string, string>) =>
    optionalListenerOf(loadConfig(outside, { env }), "outside", { id: "proxy-7", host: "node-3", zone: "" });

  test("is not there by default; its advertised address names this process", () => {
    expect(listener({})).toBeUndefined();
    const given = { SLUICE_LISTENER_OUTSIDE_BIND: "127.0.0.1:9094" };
    expect(listener({ ...given, SLUICE_LISTENER_OUTSIDE_ADVERTISED: "{id}.{host}.example.com:9094" })).toMatchObject({
      name: "outside",
      port: 9094,
      advertised: "proxy-7.node-3.example.com:9094",
    });
  });
  test.each([
    [{ SLUICE_LISTENER_OUTSIDE_BIND: "127.0.0.1:1" }, /bind and advertised are given together/],
    [{ SLUICE_LISTENER_OUTSIDE_ADVERTISED: "a:1" }, /bind and advertised are given together/],
    [{ SLUICE_LISTENER_OUTSIDE_BIND: "127.0.0.1:1", SLUICE_LISTENER_OUTSIDE_ADVERTISED: "{pod}:1" }, /\{pod\} is not known/],
    [{ SLUICE_LISTENER_OUTSIDE_BIND: "127.0.0.1:1", SLUICE_LISTENER_OUTSIDE_ADVERTISED: "{zone}:1" }, /`zone` is empty/],
    [{ SLUICE_LISTENER_OUTSIDE_BIND: "127.0.0.1:1", SLUICE_LISTENER_OUTSIDE_ADVERTISED: "{id}" }, /it takes host:port/],
    [{ SLUICE_LISTENER_OUTSIDE_BIND: "127.0.0.1:1", SLUICE_LISTENER_OUTSIDE_ADVERTISED: ":9094" }, /it takes host:port/],
    [{ SLUICE_LISTENER_OUTSIDE_BIND: ":1", SLUICE_LISTENER_OUTSIDE_ADVERTISED: "a:1" }, /allowUnauthenticated=true/],
  ])("%j is refused", (env, message) => {
    expect(why(() => listener(env))).toMatch(message);
  });
});

import { execFileSync, spawn } from "node:child_process";
import { mkdir, readdir, readFile, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, test } from "@jest/globals";
import { codeOf } from "@sluice/core/model";
import { silentLogger, systemClock, systemRandom } from "@sluice/runtime";
import { tempDir } from "@sluice/test-support";
import { objectStoreTimers, openFilesystemObjectStore, openObjectStore } from "../src/index.ts";

const parts = { clock: systemClock, random: systemRandom, logger: silentLogger };
const codeFrom = (promise: Promise<unknown>): Promise<string> =>
  promise.then(
    () => "ok",
    (error: unknown) => codeOf(error),
  );
const one = new Uint8Array([1]);

describe("filesystem object store", () => {
  test("a writer killed at any moment leaves whole objects or none; what it left is removed when it is old", async () => {
    await using dir = await tempDir("objects");
    const url = (path: string): string => JSON.stringify(pathToFileURL(path).href);
    const program = `
      import { openFilesystemObjectStore } from ${url(join(import.meta.dirname, "../src/index.ts"))};
      import { systemClock, systemRandom } from ${url(join(import.meta.dirname, "../../runtime/src/index.ts"))};
      const store = await openFilesystemObjectStore(${JSON.stringify(dir.path)}, { clock: systemClock, random: systemRandom });
      for (let i = 0; ; i++) {
        await store.put("a/" + (i % 3), [new Uint8Array(4_000_000 + (i % 200)).fill(i % 200)]);
        process.stdout.write(".");
      }`;
    for (let round = 0; round < 4; round++) {
      const child = spawn(process.execPath, ["--input-type=module", "-e", program], { stdio: ["ignore", "pipe", "inherit"] });
      await new Promise((resolve) => child.stdout.once("data", resolve));
      await systemClock.sleep(5 + round * 11);
      const gone = new Promise((resolve) => child.once("exit", resolve));
      child.kill("SIGKILL");
      await gone;
      for (const name of await readdir(join(dir.path, "objects", "a"))) {
        const bytes = await readFile(join(dir.path, "objects", "a", name));
        const fill = bytes.length - 4_000_000;
        expect(bytes.findIndex((byte) => byte !== fill)).toBe(-1);
      }
    }
    await writeFile(join(dir.path, "incoming", "old"), "x");
    await writeFile(join(dir.path, "incoming", "young"), "x");
    const old = (systemClock.wallMs() - objectStoreTimers.staleIncomingMs) / 1000 - 60;
    await utimes(join(dir.path, "incoming", "old"), old, old);
    await openFilesystemObjectStore(dir.path, parts);
    const left = await readdir(join(dir.path, "incoming"));
    expect(left).toContain("young");
    expect(left).not.toContain("old");
  }, 20_000);

  test("empty folders go with their last object, the root stays", async () => {
    await using dir = await tempDir("objects");
    const store = await openFilesystemObjectStore(dir.path, parts);
    await store.put("a/b/c/1", [one]);
    await store.put("a/b/2", [one]);
    await store.delete("a/b/c/1");
    expect(await readdir(join(dir.path, "objects", "a", "b"))).toEqual(["2"]);
    await store.delete("a/b/2");
    expect(await readdir(dir.path)).toEqual(["incoming", "objects"]);
    expect(await readdir(join(dir.path, "objects"))).toEqual([]);
  });

  test("a key that would be a folder of another is refused, both ways", async () => {
    await using dir = await tempDir("objects");
    const store = await openFilesystemObjectStore(dir.path, parts);
    await store.put("a/b", [one]);
    expect(await codeFrom(store.put("a", [one]))).toBe("INVALID_ARGUMENT");
    expect(await codeFrom(store.put("a/b/c", [one]))).toBe("INVALID_ARGUMENT");
    expect(await readdir(join(dir.path, "incoming"))).toEqual([]);
  });

  test("links are no objects: neither read, nor listed, nor followed by a write", async () => {
    await using dir = await tempDir("objects");
    const store = await openFilesystemObjectStore(dir.path, parts);
    const secret = join(dir.path, "secret");
    await writeFile(secret, "secret");
    await symlink(secret, join(dir.path, "objects", "link"));
    expect(await store.head("link")).toBeUndefined();
    expect(await codeFrom(store.getRange("link", 0, 1))).toBe("OBJECT_NOT_FOUND");
    for await (const info of store.list("")) throw new Error(`listed ${info.key}`);
    await store.put("link", [one]);
    expect(await store.getRange("link", 0, 1)).toEqual(one);
    expect(await readFile(secret, "utf8")).toBe("secret");
  });

  test("files that are no keys are not listed", async () => {
    await using dir = await tempDir("objects");
    const store = await openFilesystemObjectStore(dir.path, parts);
    await mkdir(join(dir.path, "objects", "with space"));
    await writeFile(join(dir.path, "objects", "with space", "x"), "x");
    await writeFile(join(dir.path, "objects", "a~"), "x");
    await store.put("a", [one]);
    const keys: string[] = [];
    for await (const info of store.list("")) keys.push(info.key);
    expect(keys).toEqual(["a"]);
  });

  test("a folder that cannot be used is said at once", async () => {
    await using dir = await tempDir("objects");
    await writeFile(join(dir.path, "file"), "");
    expect(await codeFrom(openFilesystemObjectStore(join(dir.path, "file"), parts))).toBe("OBJECT_STORE_UNAVAILABLE");
  });
});

describe("openObjectStore", () => {
  const credentials = { accessKey: "a", secretKey: "s" };
  const refused = [
    "",
    "ftp://host/x",
    "http://127.0.0.1:9000/bucket",
    "file://elsewhere/x",
    "file:///x?prefix=y",
    "s3://",
    "s3://UPPER?endpoint=http://127.0.0.1:1",
    "s3://bucket?endpoint=nonsense",
    "s3://bucket?endpoint=ftp://127.0.0.1",
    "s3://bucket?endpoint=http://127.0.0.1:1/path",
    "s3://bucket?endpoint=http://user@127.0.0.1:1",
    "s3://bucket?unknown=1",
    "s3://bucket?region=a&region=b",
    "s3://bucket?pathStyle=maybe",
    "s3://bucket?pathStyle=false&endpoint=http://127.0.0.1:1",
    "s3://bucket/bad prefix",
    "s3://bucket/a//b",
    "s3://key:secret@bucket",
  ];
  test.each(refused)("refuses %j", async (url) => {
    expect(await codeFrom(openObjectStore(url, { ...parts, credentials }))).toBe("INVALID_ARGUMENT");
  });

  test("s3 needs credentials, and never shows those of a wrong URL", async () => {
    expect(await codeFrom(openObjectStore("s3://bucket", parts))).toBe("INVALID_ARGUMENT");
    expect(await codeFrom(openObjectStore("s3://bucket", { ...parts, credentials: { accessKey: "", secretKey: "" } }))).toBe(
      "INVALID_ARGUMENT",
    );
    const opened = openObjectStore("s3://key:hunter2@bucket", { ...parts, credentials });
    await expect(opened).rejects.toThrow(expect.not.stringContaining("hunter2"));
  });

  test("opens s3 without a call, a path and a file URL as one folder", async () => {
    const s3 = await openObjectStore("s3://bucket/pre/fix/?endpoint=http://localhost:1&region=eu-west-1&pathStyle=false", {
      ...parts,
      credentials,
    });
    await expect(s3.head("k")).rejects.toThrow("s3://bucket/pre/fix/k");
    await s3.close();
    await using dir = await tempDir("objects");
    const path = join(dir.path, "new", "folder");
    await (await openObjectStore(path, parts)).put("k", [one]);
    expect((await (await openObjectStore(`file://${path}`, parts)).head("k"))?.sizeBytes).toBe(1);
  });

  test("only who opens s3 loads the client of S3: others start without it", async () => {
    await using dir = await tempDir("objects");
    const url = (path: string): string => JSON.stringify(pathToFileURL(join(import.meta.dirname, path)).href);
    const program = `
      import { registerHooks } from "node:module";
      let loaded = 0;
      registerHooks({ load: (what, context, next) => ((loaded += what.includes("/minio/") ? 1 : 0), next(what, context)) });
      const { openObjectStore } = await import(${url("../src/index.ts")});
      const { systemClock, systemRandom } = await import(${url("../../runtime/src/index.ts")});
      const options = { clock: systemClock, random: systemRandom, credentials: ${JSON.stringify(credentials)} };
      await openObjectStore(${JSON.stringify(dir.path)}, options);
      const before = loaded;
      await openObjectStore("s3://bucket?endpoint=http://localhost:1", options);
      process.stdout.write(JSON.stringify([before, loaded > 0]));`;
    expect(execFileSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" })).toBe("[0,true]");
  });
});

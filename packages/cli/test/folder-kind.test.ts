import { afterEach, beforeEach, describe, expect, test } from "@jest/globals";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exitCodes, explain } from "../src/exit.ts";
import { checkFolder, makeFolder, type FolderKind } from "../src/folder-kind.ts";

let dir = "";
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sluice-cli-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

const touch = async (...names: string[]): Promise<void> => {
  for (const name of names) {
    if (name.includes("/")) await mkdir(join(dir, name, ".."), { recursive: true });
    await writeFile(join(dir, name), "");
  }
};
const outcome = (kind: FolderKind): Promise<unknown> => checkFolder(dir, kind, "--data").catch((error: unknown) => explain(error).exitCode);

describe("a folder is taken when it is empty, or of the same kind", () => {
  test.each<[string, string[], unknown, unknown]>([
    ["nothing", [], "new", "new"],
    ["what a file system makes", ["lost+found/x"], "new", "new"],
    ["a standalone", ["metadata.sqlite", "stores/x", "standalone.json"], "known", exitCodes.folderInUse],
    ["a cluster", ["cluster.json", "data/x", "logs/etcd-1.log"], exitCodes.folderInUse, "known"],
    ["a cluster that never served", ["data/x", "logs/etcd-1.log"], exitCodes.folderInUse, "known"],
    ["a cluster of which only the secret was made", ["secrets/cluster.secret"], exitCodes.folderInUse, "known"],
    ["somebody's data and logs", ["data/x", "logs/mine.log"], exitCodes.folderInUse, exitCodes.folderInUse],
    ["somebody's objects", ["objects/x"], exitCodes.folderInUse, exitCodes.folderInUse],
    ["other files", ["report.txt"], exitCodes.folderInUse, exitCodes.folderInUse],
  ])("%s", async (_, names, standalone, cluster) => {
    await touch(...names);
    expect([await outcome("standalone"), await outcome("cluster")]).toEqual([standalone, cluster]);
  });
  test("the message names the folder, what is in it and the way out", async () => {
    await touch("cluster.json");
    const message = await checkFolder(dir, "standalone", "--data").then(String, (error: unknown) => explain(error).text);
    expect(message).toContain(`--data ${dir} holds a cluster of processes`);
    expect(message).toContain(`sluice cluster up --dir ${dir}`);
    await rm(join(dir, "cluster.json"));
    await touch("report.txt");
    await expect(checkFolder(dir, "standalone", "--data")).rejects.toThrow('holds other files ("report.txt")');
  });
  test("a folder that is none, or that nobody may make, is named with the system's reason", async () => {
    await touch("file");
    const refused = (path: string) => makeFolder(path, "--data").then(String, (error: unknown) => explain(error));
    expect(await refused(join(dir, "file"))).toEqual({ text: `sluice: --data ${dir}/file: ENOTDIR: not a folder`, exitCode: 2 });
    expect(await refused(join(dir, "file/below"))).toMatchObject({ text: expect.stringContaining("ENOTDIR"), exitCode: 2 });
    await expect(checkFolder(join(dir, "file"), "cluster", "--dir")).rejects.toThrow(`--dir ${dir}/file: ENOTDIR`);
    // The system's own recursion never ends here.
    if (process.platform === "linux")
      expect(await refused("/proc/nobody/here")).toEqual({
        text: expect.stringMatching(/--data \/proc\/nobody\/here: E[A-Z]+: .*\(\/proc\/nobody\)/),
        exitCode: 2,
      });
  });
  test("made step by step; the uppermost new one is told", async () => {
    expect(await makeFolder(join(dir, "a/b/c"), "--data")).toBe(join(dir, "a"));
    expect(await makeFolder(join(dir, "a/b/c"), "--data")).toBeUndefined();
    expect(await readdir(join(dir, "a/b"))).toEqual(["c"]);
  });
});

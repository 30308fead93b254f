import { expect, test } from "@jest/globals";
import { crc32c } from "@sluice/codec";
import { encodeFileHeader } from "@sluice/core/journal";
import { codeOf } from "@sluice/core/model";
import { JournalFiles } from "../src/journal/files.ts";
import { MemoryDisk } from "./fault-disk.ts";

const FILE_BYTES = 64 * 1024;
const identity = { clusterId: "c", incarnation: "i" };
const open = async (disk: MemoryDisk): Promise<JournalFiles> => {
  const files = new JournalFiles({
    disk: disk.mounted(),
    directory: "j",
    fileBytes: FILE_BYTES,
    crc32c,
    salt: 1,
    ...identity,
    spareFilesMax: 4,
  });
  await files.open();
  return files;
};
async function begin(files: JournalFiles, fileNumber: number): Promise<string> {
  const { file, capacity } = await files.begin(fileNumber, 4096);
  await file.writeDurably([encodeFileHeader({ fileNumber, fileBytes: capacity, ...identity }, crc32c)], 0);
  return file.path;
}

test("a file that was begun in vain has forgotten its number when another file gets it", async () => {
  const disk = new MemoryDisk();
  const files = await open(disk);
  const paths = [await begin(files, 1), await begin(files, 2), await begin(files, 3)];
  // The scan ends in file 2; then file 1 is free, and is what the next file is made of.
  await files.discardAfter(2);
  await files.release(1);
  expect(await begin(files, 3)).toBe(paths[0]);
  disk.powerCut(() => false);
  const again = await open(disk);
  expect(again.inUse().map((f) => [f.fileNumber, f.file.path])).toEqual([
    [2, paths[1]],
    [3, paths[0]],
  ]);
  expect(again.freeFiles).toBe(1);
});

test("two files of one number are refused: either could be the one that counts", async () => {
  const disk = new MemoryDisk();
  const files = await open(disk);
  await begin(files, 1);
  const { file } = await files.begin(2, 4096);
  await file.writeDurably([encodeFileHeader({ fileNumber: 1, fileBytes: FILE_BYTES, ...identity }, crc32c)], 0);
  await expect(open(disk).catch((error: unknown) => codeOf(error))).resolves.toBe("CORRUPT_SEGMENT");
});

import { createHash } from "node:crypto";
import { cp, mkdir, readFile, rm } from "node:fs/promises";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { aptInstall, cachedTool, findProgram, run } from "./tools.ts";

/*
 * librdkafka's own tests. The npm package of Confluent's JavaScript client brings the whole of librdkafka's sources, its tests too; built once on a machine.
 */
export const LIBRDKAFKA_VERSION = "2.15.1";
const PACKAGE = "@confluentinc/kafka-javascript@1.10.1";
const PACKAGE_SHA512 = "KVePUBn21EqCVP9mfxzEuM3SYJHHEF7X+iiC2e43QQgDSyEaksInmCGooT3w5q+cNAdkSCrK71j0ICfqoSqZLw==";
const INSIDE = "package/deps/librdkafka";
/** A compiler that shares a busy machine takes its time. */
const BUILD_MS = 1_800_000;
/** Codecs that librdkafka takes from the system. Neither TLS nor SASL: nothing here speaks them. */
const LIBRARIES: ReadonlyArray<readonly [header: string, debian: string]> = [
  ["zlib.h", "zlib1g-dev"],
  ["zstd.h", "libzstd-dev"],
];
const OPTIONS = ["--disable-ssl", "--disable-gssapi", "--disable-curl", "--disable-lz4-ext", "--disable-debug-symbols"];

export interface LibrdkafkaTests {
  readonly program: string;
  /** What a test reads beside its program. */
  readonly folder: string;
  /** Of its shared libraries, for LD_LIBRARY_PATH. */
  readonly libraries: string;
}
/** The program of librdkafka's tests; built with gcc and make. Throws, naming what is missing. */
export async function ensureLibrdkafkaTests(): Promise<LibrdkafkaTests> {
  const tool = await cachedTool("librdkafka-tests", LIBRDKAFKA_VERSION, join("tests", "test-runner"), async (dir) => {
    const [npm, tar, make] = (["npm", "tar", "make", "gcc", "g++"] as const).map(needed);
    const missing = LIBRARIES.filter(([header]) => !existsSync(join("/usr/include", header)));
    if (missing.length > 0) await aptInstall(missing.map(([, debian]) => debian));
    const packed = JSON.parse(await run(npm ?? "", ["pack", "--json", "--ignore-scripts", PACKAGE], { cwd: dir })) as [
      { filename: string },
    ];
    const file = join(dir, packed[0].filename);
    const sum = createHash("sha512")
      .update(await readFile(file))
      .digest("base64");
    if (sum !== PACKAGE_SHA512) throw new Error(`${PACKAGE} is not what it was: its SHA-512 is ${sum}`);
    await run(tar ?? "", ["xzf", file, INSIDE], { cwd: dir });
    const source = join(dir, INSIDE);
    await run(join(source, "configure"), OPTIONS, { cwd: source });
    const jobs = ["-j", "2"];
    await run(make ?? "", [...jobs, "libs"], { cwd: source, timeoutMs: BUILD_MS });
    await run(make ?? "", [...jobs, "build"], { cwd: join(source, "tests"), timeoutMs: BUILD_MS });
    await mkdir(join(dir, "tests"));
    await mkdir(join(dir, "lib"));
    await cp(join(source, "tests", "test-runner"), join(dir, "tests", "test-runner"));
    await cp(join(source, "tests", "fixtures"), join(dir, "tests", "fixtures"), { recursive: true });
    for (const name of [join("src", "librdkafka.so.1"), join("src-cpp", "librdkafka++.so.1")])
      await cp(join(source, name), join(dir, "lib", name.slice(name.indexOf("/") + 1)));
    await rm(join(dir, "package"), { recursive: true });
    await rm(file);
  });
  const folder = dirname(tool.path);
  return { program: tool.path, folder, libraries: join(folder, "..", "lib") };
}

function needed(name: string): string {
  const path = findProgram(name, ["/usr/bin", "/bin"]);
  if (path === undefined) throw new Error(`librdkafka's own tests need ${name}, which is not on this machine`);
  return path;
}

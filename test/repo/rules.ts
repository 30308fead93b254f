/**
 * The rules of the repository, as functions from files to findings, so that a canary can show that each rule is able to fail.
 * Paths are relative to the root, with forward slashes.
 */
export interface SourceFile {
  readonly path: string;
  readonly text: string;
}
export interface Finding {
  readonly path: string;
  readonly line: number;
  readonly message: string;
}

const isTest = (path: string): boolean => /(^|\/)test\//.test(path) || path.endsWith(".test.ts");
const isGenerated = (path: string): boolean => path.includes("/gen/");

/** Where an import of ours leads: the folder `packages/x`, `services/x`, `sim`, `bench`. */
const PACKAGES = [
  "core",
  "kafka-wire",
  "codec",
  "runtime",
  "proto",
  "rpc",
  "link",
  "metadata",
  "catalog",
  "object-store",
  "service",
  "tracing",
  "partition-client",
  "client",
  "cli",
];
const SERVICES = ["proxy", "broker", "controller", "coordinator", "segment-store"];

/**
 * Import arrows: who may import whom (production code). Everything not listed is forbidden.
 *
 *   core, kafka-wire ◄── codec, runtime ◄── rpc, link, metadata, object-store ◄── catalog ◄── services ◄── cli, bench
 */
const PORTS = [
  "core",
  "kafka-wire",
  "codec",
  "runtime",
  "proto",
  "rpc",
  "link",
  "metadata",
  "catalog",
  "object-store",
  "service",
  "partition-client",
];
export const arrows: Readonly<Record<string, readonly string[]>> = {
  "packages/core": [],
  "packages/kafka-wire": [],
  "packages/codec": ["core"],
  "packages/runtime": ["core"],
  "packages/proto": [],
  "packages/rpc": ["core", "runtime", "proto"],
  "packages/link": ["core", "runtime"],
  "packages/metadata": ["core", "runtime"],
  "packages/object-store": ["core", "runtime"],
  "packages/catalog": ["core", "runtime", "proto", "metadata"],
  "packages/partition-client": ["core", "codec", "runtime", "proto", "rpc", "link", "metadata", "catalog", "object-store"],
  "packages/tracing": ["core", "runtime"],
  "packages/service": ["core", "runtime", "metadata", "catalog", "object-store", "tracing"],
  "packages/client": ["core", "codec", "runtime", "proto", "rpc"],
  "packages/cli": [...PORTS, "client", ...SERVICES],
  ...Object.fromEntries(SERVICES.map((s) => [`services/${s}`, PORTS])),
  sim: ["core"],
  // The peers that it measures are started as the tests start them.
  bench: [...PORTS, "client", "cli", "test-support", ...SERVICES],
};

function* lines(file: SourceFile): Generator<readonly [number, string]> {
  let n = 0;
  for (const line of file.text.split("\n")) yield [++n, line];
}

export function checkArrows(files: readonly SourceFile[]): Finding[] {
  const findings: Finding[] = [];
  for (const file of files) {
    if (isTest(file.path) || isGenerated(file.path)) continue;
    const home = Object.keys(arrows).find((h) => file.path.startsWith(`${h}/`));
    if (home === undefined) continue;
    const own = home.split("/").at(-1);
    for (const [line, text] of lines(file)) {
      const to = /(?:from|import\()\s*"@sluice\/([a-z-]+)/.exec(text)?.[1];
      if (to !== undefined && to !== own && !(arrows[home] ?? []).includes(to))
        findings.push({ path: file.path, line, message: `${home} may not import @sluice/${to}` });
      const outward = /from\s*"(\.\.\/[^"]*)"/.exec(text)?.[1];
      if (outward !== undefined) {
        const depth = file.path.slice(home.length + 1).split("/").length - 1;
        const ups = outward.split("/").filter((p) => p === "..").length;
        if (ups > depth) findings.push({ path: file.path, line, message: "a relative import leaves its package" });
      }
    }
  }
  return findings;
}

/** Ambient time, randomness, environment and output: use the components of packages/runtime, handed in by the composition root. */
const BANNED: ReadonlyArray<readonly [RegExp, string]> = [
  [/\bDate\.now\(|\bnew Date\(\)|\bperformance\.now\(|\bprocess\.hrtime/, "use Clock"],
  [/(?<![.\w])set(Timeout|Interval|Immediate)\(/, "use Clock"],
  [/\bMath\.random\(|\brandomUUID\(|\brandomBytes\(|\brandomInt\(|\bgetRandomValues\(/, "use Random"],
  [/\bprocess\.env\b/, "use configuration"],
  [/\bconsole\./, "use Logger"],
  [/\bprocess\.(exit|on|once|stdout|stderr|argv|kill)\b/, "only a main.ts or the command line touches the process"],
];
const banExempt = (path: string): boolean =>
  isTest(path) ||
  isGenerated(path) ||
  path.startsWith("packages/runtime/") ||
  path.startsWith("packages/cli/") ||
  path.startsWith("bench/") ||
  path.startsWith("tools/") ||
  path.startsWith("deploy/") ||
  path.startsWith("test/") ||
  path === "packages/proto/generate.ts" ||
  path.startsWith("packages/kafka-wire/tools/") ||
  path.endsWith("/main.ts");

export function checkBans(files: readonly SourceFile[]): Finding[] {
  const findings: Finding[] = [];
  for (const file of files) {
    if (banExempt(file.path)) continue;
    for (const [line, text] of lines(file)) {
      const code = text.replace(/^\s*(\/\/|\*|\/\*).*$/, "");
      for (const [pattern, instead] of BANNED)
        if (pattern.test(code)) findings.push({ path: file.path, line, message: `${pattern.source}: ${instead}` });
    }
  }
  return findings;
}

const PURE = ["packages/core/src/", "packages/kafka-wire/src/"];
/** Core and kafka-wire are pure: no module of Node.js, no Buffer. */
export function checkPurity(files: readonly SourceFile[]): Finding[] {
  const findings: Finding[] = [];
  for (const file of files) {
    if (!PURE.some((folder) => file.path.startsWith(folder))) continue;
    for (const [line, text] of lines(file)) {
      if (/from\s*"node:|\bBuffer\./.test(text)) findings.push({ path: file.path, line, message: "a pure package may not use Node.js" });
      const imported = /from\s*"([^."][^"]*)"/.exec(text)?.[1];
      if (imported !== undefined) findings.push({ path: file.path, line, message: `a pure package may not import ${imported}` });
    }
  }
  return findings;
}

export const FILE_LINES_MAX = 400;
export const LINE_CHARS_MAX = 200;
export function checkSizes(files: readonly SourceFile[]): Finding[] {
  const findings: Finding[] = [];
  for (const file of files) {
    if (isGenerated(file.path)) continue;
    const all = file.text.split("\n");
    if (all.length > FILE_LINES_MAX + 1) findings.push({ path: file.path, line: all.length, message: `over ${FILE_LINES_MAX} lines` });
    for (const [line, text] of lines(file))
      if (text.length > LINE_CHARS_MAX) findings.push({ path: file.path, line, message: `over ${LINE_CHARS_MAX} characters` });
  }
  return findings;
}

/** Each package and service says in its README first what it must never do. */
export function checkReadmes(folders: readonly string[], files: readonly SourceFile[]): Finding[] {
  const findings: Finding[] = [];
  for (const folder of folders) {
    const readme = files.find((f) => f.path === `${folder}/README.md`);
    if (readme === undefined) findings.push({ path: `${folder}/README.md`, line: 1, message: "missing" });
    else {
      const first =
        readme.text
          .split("\n")
          .slice(1)
          .find((l) => l.trim() !== "") ?? "";
      if (!/\bnever\b/i.test(first))
        findings.push({ path: readme.path, line: 3, message: "the first paragraph must say what it never does" });
    }
  }
  return findings;
}

/** A test switched off or focused. */
export function checkTests(files: readonly SourceFile[]): Finding[] {
  const findings: Finding[] = [];
  for (const file of files) {
    if (!file.path.endsWith(".test.ts")) continue;
    for (const [line, text] of lines(file)) {
      if (/\b(it|test|describe)\.(only|skip|todo)\b|\bx(it|test|describe)\(/.test(text))
        findings.push({ path: file.path, line, message: "switched off or focused" });
    }
    // A contract and a suite of a client assert in their own files.
    if (!/expect|assert|Contract\(|defineSuite\(/.test(file.text)) findings.push({ path: file.path, line: 1, message: "asserts nothing" });
  }
  return findings;
}

// In two halves, so that this file does not find itself.
const halves = [
  ["TO", "DO"],
  ["FIX", "ME"],
  ["X", "XX"],
  ["HA", "CK"],
];
const UNFINISHED = new RegExp(`\\b(${halves.map((h) => h.join("")).join("|")})\\b`);
export function checkUnfinished(files: readonly SourceFile[]): Finding[] {
  const findings: Finding[] = [];
  for (const file of files)
    for (const [line, text] of lines(file)) if (UNFINISHED.test(text)) findings.push({ path: file.path, line, message: "unfinished work" });
  return findings;
}

/** Every service and package name that the rules know exists, and the reverse. */
export function checkKnownFolders(folders: readonly string[]): Finding[] {
  const known = [...PACKAGES.map((p) => `packages/${p}`), ...SERVICES.map((s) => `services/${s}`)];
  return [
    ...folders.filter((f) => !known.includes(f)).map((path) => ({ path, line: 0, message: "unknown to the import arrows" })),
    ...known.filter((f) => !folders.includes(f)).map((path) => ({ path, line: 0, message: "named by the import arrows, but missing" })),
  ];
}

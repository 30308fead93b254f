/**
 * A base image of one Node.js program of this machine: the binary, the libraries it is linked to, two users, and nothing else: no shell,
 * no package manager. For machines that reach no registry, and to show that no image needs more.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, copyFileSync, existsSync, mkdirSync, realpathSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** The libraries of a dynamically linked program, its loader among them, as absolute paths. Empty for a static one. */
function librariesOf(program: string): string[] {
  try {
    const text = execFileSync("ldd", [program], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
    return [...text.matchAll(/(?:=> )?(\/\S+) \(0x/g)].map((match) => match[1] as string);
  } catch {
    return [];
  }
}

/** The C library comes in parts; native modules are linked to some that Node.js itself is not. */
const C_LIBRARY = ["librt.so.1", "libdl.so.2", "libpthread.so.0", "libm.so.6", "libresolv.so.2", "libnss_dns.so.2", "libnss_files.so.2"];

/** Lays out `folder` with a Dockerfile for an image of `program`, at /usr/local/bin/`name`. */
export function layOutProgram(folder: string, program: string, name: string): void {
  const put = (from: string, to: string): void => {
    const path = join(folder, "root", to);
    mkdirSync(dirname(path), { recursive: true });
    copyFileSync(realpathSync(from), path);
    chmodSync(path, 0o755);
  };
  const text = (to: string, content: string): void => {
    mkdirSync(dirname(join(folder, "root", to)), { recursive: true });
    writeFileSync(join(folder, "root", to), content);
  };
  put(program, `usr/local/bin/${name}`);
  const libraries = librariesOf(realpathSync(program));
  const home = libraries.find((path) => path.endsWith("/libc.so.6"));
  const parts = home === undefined ? [] : C_LIBRARY.map((part) => join(dirname(home), part)).filter((path) => existsSync(path));
  for (const library of new Set([...libraries, ...parts])) put(library, library);
  text("etc/passwd", "root:x:0:0::/:/bin/false\nnonroot:x:65532:65532::/:/bin/false\n");
  text("etc/group", "root:x:0:\nnonroot:x:65532:\n");
  text("etc/nsswitch.conf", "hosts: files dns\n");
  mkdirSync(join(folder, "root/tmp"), { recursive: true });
  chmodSync(join(folder, "root/tmp"), 0o1777);
  writeFileSync(join(folder, "Dockerfile"), "FROM scratch\nCOPY root /\nENV PATH=/usr/local/bin\n");
}

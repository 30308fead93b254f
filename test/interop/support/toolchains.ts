import { findGo, findProgram } from "@sluice/test-support";

/** Programs that a suite needs and the machine may lack. kcat and Python's packages are installed when missing. */
export type Toolchain = "java" | "javac" | "mvn" | "go" | "python3" | "gcc" | "make";

const NAMES: Readonly<Record<Toolchain, string>> = {
  java: "Java 17",
  javac: "a JDK 17",
  mvn: "Maven",
  go: "Go",
  python3: "Python 3",
  gcc: "gcc",
  make: "make",
};

export function toolchain(name: Toolchain): string | undefined {
  return name === "go" ? findGo() : findProgram(name, ["/usr/bin"]);
}
/** Names of those that are not on this machine. */
export const missingToolchains = (needs: readonly Toolchain[], find = toolchain): string[] =>
  needs.filter((name) => find(name) === undefined).map((name) => NAMES[name]);

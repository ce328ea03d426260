import { fileURLToPath } from "node:url";
import { type Log, silent } from "../log.ts";
import { cachedGoProgram } from "../sources/cached-go-program.ts";
import type { TarEntry } from "./tar-archive.ts";

const PROGRAM = "inside";

/**
 * Returns the path of the statically linked program `inside`, which serves the edge in a workload's container: in the
 * cache, or built now from `edge/inside/program`.
 *
 * @throws Error that says why it cannot be built
 */
export async function insideProgram(options: { log?: Log; environment?: NodeJS.ProcessEnv } = {}): Promise<string> {
  const { log = silent, environment = process.env } = options;
  return await cachedGoProgram({
    ...{ what: `the program ${PROGRAM}`, program: PROGRAM, cache: PROGRAM },
    moduleFolder: fileURLToPath(new URL("../../../edge/inside/program", import.meta.url)),
    packages: ["."],
    // What its `go.mod` asks for.
    minimumGo: "1.24",
    duration: "12 seconds on two cores",
    ...{ environment, log },
  });
}

/** Returns the same, or undefined if it cannot be built; the log says why. Pods start without it too. */
export async function findInsideProgram(
  log: Log,
  environment: NodeJS.ProcessEnv = process.env,
): Promise<string | undefined> {
  try {
    return await insideProgram({ log, environment });
  } catch (error) {
    log(`the images do not contain the program ${PROGRAM}: ${(error as Error).message}`);
    return undefined;
  }
}

/** Returns the program as the file of an image from which the operator's init container copies it. */
export function insideFile(content: Buffer): TarEntry {
  return { path: `bin/${PROGRAM}`, content, mode: 0o755 };
}

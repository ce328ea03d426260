import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { cacheFolder } from "../folders.ts";
import { type Log, silent } from "../log.ts";
import { withFileLock } from "../process/file-lock.ts";
import { type BuildGoOptions, buildGo } from "./build-go.ts";
import { isProgram } from "./find-on-path.ts";

export interface CachedGoProgramOptions
  extends Pick<
    BuildGoOptions,
    "what" | "moduleFolder" | "firstModule" | "reachMs" | "packages" | "minimumGo" | "duration"
  > {
  /** Name of the program, as Go gives it. */
  program: string;
  /** Folder of the cache. */
  cache: string;
  environment?: NodeJS.ProcessEnv;
  log?: Log;
  /** @default none */
  linkerFlags?: readonly string[];
}

/** Longer than the slowest build takes. */
const LOCK_LIMIT_MS = 30 * 60_000;

/**
 * Returns where a program is that Go modules are built to, and builds it where the cache has none of the module's
 * present state.
 *
 * @throws Error when it can neither be found nor built
 */
export async function cachedGoProgram(options: CachedGoProgramOptions): Promise<string> {
  const { program, cache, environment = process.env, log = silent, linkerFlags = [], ...build } = options;
  const home = join(cacheFolder(environment), cache);
  const folder = join(home, sourceDigest(build.moduleFolder, linkerFlags));
  const path = join(folder, program);
  if (isProgram(path)) return path;
  const onWait = ({ pid }: { pid: number }): void => log(`waiting for process ${pid}, which builds ${build.what}`);
  const refused = await withFileLock(
    join(home, "lock"),
    { what: build.what, limitMs: LOCK_LIMIT_MS, onWait },
    async () => {
      if (isProgram(path)) return undefined;
      return await buildGo({ ...build, linkerFlags, folder, environment, log });
    },
  );
  if (refused !== undefined) throw new Error(refused.because);
  return path;
}

/** Tells one state of the module from another. */
function sourceDigest(moduleFolder: string, linkerFlags: readonly string[]): string {
  const hash = createHash("sha256").update(linkerFlags.join(" "));
  const sources = readdirSync(moduleFolder).filter((name) => name.endsWith(".go") && !name.endsWith("_test.go"));
  for (const file of ["go.mod", "go.sum", ...sources.sort()]) {
    const path = join(moduleFolder, file);
    if (existsSync(path)) hash.update(readFileSync(path));
  }
  return hash.digest("hex").slice(0, 12);
}

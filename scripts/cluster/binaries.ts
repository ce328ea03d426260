import { join } from "node:path";
import { installDebianPackages } from "./debian-packages.ts";
import { binariesFolder } from "./folders.ts";
import { type Log, silent } from "./log.ts";
import { withFileLock } from "./process/file-lock.ts";
import { PROGRAMS, type ProgramName } from "./programs.ts";
import type { BinariesSource, SourceContext } from "./sources/binaries-source.ts";
import { cacheSource } from "./sources/cache.ts";
import { debianSource } from "./sources/debian-source.ts";
import { findOnPath, isProgram } from "./sources/find-on-path.ts";
import { goModulesSource } from "./sources/go-modules.ts";
import { namedFolderSource } from "./sources/named-folder.ts";
import { officialReleaseSource } from "./sources/official-release.ts";

/** A set of Kubernetes programs of one version. */
export interface Binaries {
  /** The source of the programs. */
  readonly source: string;
  /** Version of Kubernetes, such as `v1.34.10`. */
  readonly version: string;
  /** The path of each requested program. */
  readonly programs: Readonly<Partial<Record<ProgramName, string>>>;
}

export interface FindBinariesOptions {
  /** @default all of PROGRAMS */
  need?: readonly ProgramName[];
  log?: Log;
  environment?: NodeJS.ProcessEnv;
  /** The sources to search, the best first. @default BINARIES_SOURCES */
  sources?: readonly BinariesSource[];
  /** Installs Debian's etcd or kubectl if neither the set nor the PATH has one. */
  install?: typeof installDebianPackages;
}

/** The sources of Kubernetes programs, the best first. */
export const BINARIES_SOURCES: readonly BinariesSource[] = [
  namedFolderSource,
  cacheSource(),
  officialReleaseSource(),
  goModulesSource,
  debianSource,
];

const DEBIAN_PACKAGES = { etcd: "etcd-server", kubectl: "kubernetes-client" } as const;

/** Longer than the slowest build takes. */
const LOCK_LIMIT_MS = 90 * 60_000;

/**
 * Returns the Kubernetes programs of the first source that has them. They are fetched or built if necessary.
 *
 * @throws Error that says for every source why it has none
 */
export async function findBinaries(options: FindBinariesOptions = {}): Promise<Binaries> {
  const { log = silent, need = PROGRAMS, environment = process.env, sources = BINARIES_SOURCES } = options;
  const context: SourceContext = { need, environment, log, binariesFolder: binariesFolder(environment) };
  const reasons: string[] = [];
  let found = await findIn(
    sources.filter(({ takesLong }) => !takesLong),
    context,
    reasons,
  );
  if (found === undefined) {
    // One process fetches or builds; those that waited find the result in the cache.
    const lock = {
      what: "the Kubernetes programs",
      limitMs: LOCK_LIMIT_MS,
      onWait: ({ pid }: { pid: number }) => log(`waiting for process ${pid}, which fetches or builds the programs`),
    };
    reasons.length = 0;
    found = await withFileLock(join(context.binariesFolder, "lock"), lock, () => findIn(sources, context, reasons));
  }
  if (found === undefined) throw new Error(`Cannot find the Kubernetes programs:\n  ${reasons.join("\n  ")}`);
  log(`Kubernetes ${found.version} from ${found.source} (${found.folder})`);
  const programs = await locate(found.folder, { ...options, need, log, environment });
  return { source: found.source, version: found.version, programs };
}

/**
 * Returns the path of one program of a set.
 *
 * @throws Error if the set does not have it
 */
export function programPath(binaries: Binaries, name: ProgramName): string {
  const path = binaries.programs[name];
  if (path === undefined) throw new Error(`Cannot start ${name}: the binaries were found without it`);
  return path;
}

async function findIn(
  sources: readonly BinariesSource[],
  context: SourceContext,
  reasons: string[],
): Promise<{ source: string; version: string; folder: string } | undefined> {
  for (const source of sources) {
    const result = await source.find(context).catch((error: Error) => {
      // If a build fails, the next source is tried. A folder that the user has named must work.
      if (source.takesLong) return { because: error.message };
      throw error;
    });
    if ("folder" in result) return { ...result, source: source.name };
    reasons.push(`${source.name}: ${result.because}`);
    if (source.takesLong) context.log(`not from ${source.name}: ${result.because}`);
  }
  return undefined;
}

async function locate(
  folder: string,
  options: FindBinariesOptions & { need: readonly ProgramName[]; log: Log; environment: NodeJS.ProcessEnv },
): Promise<Partial<Record<ProgramName, string>>> {
  const programs: Partial<Record<ProgramName, string>> = {};
  for (const name of options.need) {
    const inSet = join(folder, name);
    const path = isProgram(inSet) ? inSet : findOnPath(name, options.environment);
    if (path !== undefined) programs[name] = path;
  }
  // An official release, or a set from elsewhere, has no etcd. Debian's etcd works with every version.
  for (const name of ["etcd", "kubectl"] as const) {
    if (programs[name] !== undefined || !options.need.includes(name)) continue;
    await (options.install ?? installDebianPackages)([DEBIAN_PACKAGES[name]], options.log);
    const path = findOnPath(name, options.environment);
    if (path === undefined) throw new Error(`Cannot find ${name}, although ${DEBIAN_PACKAGES[name]} is installed`);
    programs[name] = path;
  }
  return programs;
}

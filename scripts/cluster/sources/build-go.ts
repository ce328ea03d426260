import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { installDebianPackages, isDebianPackage } from "../debian-packages.ts";
import { versionAtLeast } from "../kubernetes/version-at-least.ts";
import type { Log } from "../log.ts";
import { runCommand, runWithLines } from "../process/run-command.ts";
import { withProgress } from "./binaries-source.ts";
import { findOnPath } from "./find-on-path.ts";

export interface BuildGoOptions {
  /** What is built, as in "fetching the Go modules of". */
  what: string;
  /** The folder of the go.mod, which pins everything. */
  moduleFolder: string;
  /**
   * A small module that is needed anyway; it shows whether a module proxy can be reached.
   *
   * @default none, for a program that needs only the standard library
   */
  firstModule?: string;
  /** How long the proxy may take for that one. @default 30 000 */
  reachMs?: number;
  packages: readonly string[];
  /** Such as `1.24`. */
  minimumGo: string;
  linkerFlags: readonly string[];
  /** How long the compiling takes, in brackets. */
  duration: string;
  /** Receives the programs, all of them or none. */
  folder: string;
  /** Changes what was built before it counts as there. */
  finish?: (folder: string) => void;
  environment: NodeJS.ProcessEnv;
  log: Log;
}

const REACH_MS = 30_000;
const BUILD_LIMIT_MS = 60 * 60_000;

/**
 * Builds programs from Go modules, with a Go toolchain that is there or that Debian has. Go's own caches make it go on
 * where an interrupted build stopped. Returns why it cannot be begun, or undefined when it is done.
 *
 * @throws Error with the end of what Go says, when the build fails
 */
export async function buildGo(options: BuildGoOptions): Promise<{ because: string } | undefined> {
  const { moduleFolder, firstModule, reachMs = REACH_MS, environment, log } = options;
  const go = await findGoToolchain(environment, { minimum: options.minimumGo, log });
  if (go === undefined) return { because: `no Go toolchain of version ${options.minimumGo} or later` };
  const goEnvironment = { ...environment, GOTOOLCHAIN: "local", GOWORK: "off", GOFLAGS: "", CGO_ENABLED: "0" };
  if (firstModule !== undefined) {
    // Without them Go trusts no module proxy; a fresh Debian has none.
    if (!existsSync("/etc/ssl/certs/ca-certificates.crt")) await installDebianPackages(["ca-certificates"], log);
    try {
      await runCommand(go, ["mod", "download", firstModule], {
        ...{ folder: moduleFolder, environment: goEnvironment, limitMs: reachMs },
      });
    } catch (error) {
      return { because: `no Go module proxy answers: ${(error as Error).message}` };
    }
  }
  await build(go, goEnvironment, options);
  return undefined;
}

async function build(go: string, environment: NodeJS.ProcessEnv, options: BuildGoOptions): Promise<void> {
  const { what, moduleFolder, firstModule, packages: wanted, folder, log } = options;
  const unfinished = `${folder}.unfinished`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  const run = (goArguments: string[], onLine: (line: string) => void): Promise<void> =>
    runWithLines("nice", ["-n", "10", go, ...goArguments], {
      ...{ folder: moduleFolder, environment, limitMs: BUILD_LIMIT_MS, onLine },
    });
  if (firstModule !== undefined) log(`fetching the Go modules of ${what}`);
  let modules = 0;
  let packages = 0;
  await withProgress(log, (update) =>
    run(["list", "-mod=readonly", "-deps", ...wanted], (line) => {
      if (line.startsWith("go: downloading")) update(`fetched ${++modules} modules`);
      else packages += 1;
    }),
  );
  log(`compiling ${what}: ${packages} packages (${options.duration})`);
  let compiled = 0;
  const linkerFlags = ["-s", "-w", ...options.linkerFlags].join(" ");
  const flags = [
    "-mod=readonly",
    "-trimpath",
    "-buildvcs=false",
    "-v",
    "-ldflags",
    linkerFlags,
    "-o",
    `${unfinished}/`,
  ];
  await withProgress(log, (update) =>
    run(["build", ...flags, ...wanted], () => update(`compiled ${++compiled} of up to ${packages} packages`)),
  );
  options.finish?.(unfinished);
  rmSync(folder, { recursive: true, force: true });
  renameSync(unfinished, folder);
}

const DEBIAN_VERSIONS = ["1.26", "1.25", "1.24"];

/**
 * Returns a Go command that is new enough: the user's, else one that Debian has for this release, else undefined.
 *
 * @param options.minimum such as `1.24`
 */
async function findGoToolchain(
  environment: NodeJS.ProcessEnv,
  { minimum, log }: { minimum: string; log: Log },
): Promise<string | undefined> {
  const versions = DEBIAN_VERSIONS.filter((version) => versionAtLeast(version, minimum));
  const debian = versions.map((version) => `/usr/lib/go-${version}/bin/go`);
  const candidates = [findOnPath("go", environment), "/usr/local/go/bin/go", ...debian];
  for (const candidate of candidates) {
    if (candidate === undefined || !existsSync(candidate)) continue;
    const version = await goVersion(candidate, environment);
    if (version !== undefined && versionAtLeast(version, minimum)) return candidate;
  }
  if (process.getuid?.() !== 0 || findOnPath("apt-cache", environment) === undefined) return undefined;
  for (const version of versions) {
    if (!(await isDebianPackage(`golang-${version}-go`, log))) continue;
    await installDebianPackages([`golang-${version}-go`], log);
    return `/usr/lib/go-${version}/bin/go`;
  }
  return undefined;
}

async function goVersion(go: string, environment: NodeJS.ProcessEnv): Promise<string | undefined> {
  const output = await runCommand(go, ["env", "GOVERSION"], { environment: { ...environment, GOTOOLCHAIN: "local" } });
  return /^go(\d+\.\d+)/.exec(output.trim())?.[1];
}

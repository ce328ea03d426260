import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { cacheFolder } from "./folders.ts";
import type { Log } from "./log.ts";
import { withFileLock } from "./process/file-lock.ts";
import { readIfThere } from "./process/read-if-there.ts";
import { runCommand } from "./process/run-command.ts";

const APT_LIMIT_MS = 600_000;
const ENVIRONMENT = { ...process.env, DEBIAN_FRONTEND: "noninteractive", LC_ALL: "C" };

/**
 * Installs the missing packages of the named Debian packages, and logs which. The others are not changed.
 *
 * @throws Error if this is not Debian, not root, or apt fails
 */
export async function installDebianPackages(packages: readonly string[], log: Log): Promise<void> {
  const missing = missingDebianPackages(packages);
  if (missing.length === 0) return;
  const list = missing.join(" ");
  if (process.getuid?.() !== 0) {
    throw new Error(`Cannot install missing Debian packages without being root; run: apt-get install ${list}`);
  }
  log(`installing Debian packages: ${list}`);
  await withDebianLock(() => install(missingDebianPackages(packages), log));
}

async function install(packages: readonly string[], log: Log): Promise<void> {
  // Another process has installed them in the meantime.
  if (packages.length === 0) return;
  const list = packages.join(" ");
  // Wait for an automatic upgrade of the machine.
  const install = [
    ...["-o", "DPkg::Lock::Timeout=300"],
    "install",
    "-y",
    "-qq",
    "--no-install-recommends",
    ...packages,
  ];
  try {
    await runCommand("apt-get", install, { environment: ENVIRONMENT, limitMs: APT_LIMIT_MS });
  } catch (first) {
    // The package lists may be missing, or old and name files that the archive no longer has. Other errors would
    // return.
    log(`apt-get update, since they could not be installed with the lists that are there`);
    await runCommand("apt-get", ["update", "-qq"], { environment: ENVIRONMENT, limitMs: APT_LIMIT_MS });
    try {
      await runCommand("apt-get", install, { environment: ENVIRONMENT, limitMs: APT_LIMIT_MS });
    } catch (second) {
      throw new Error(`Cannot install the Debian packages ${list}: ${(second as Error).message}`, {
        cause: new AggregateError([first, second]),
      });
    }
  }
}

/**
 * Whether this Debian release has a package; the package lists are fetched first if there are none, as on a fresh
 * image.
 */
export async function isDebianPackage(name: string, log: Log): Promise<boolean> {
  const hasCandidate = async (): Promise<boolean> =>
    /Candidate: \d/.test(await runCommand("apt-cache", ["policy", name], { environment: ENVIRONMENT }));
  if (await hasCandidate()) return true;
  const lists = "/var/lib/apt/lists";
  if (
    process.getuid?.() !== 0 ||
    (existsSync(lists) && readdirSync(lists).some((file) => file.includes("_Packages")))
  ) {
    return false;
  }
  log("apt-get update, since this machine has no package lists");
  await withDebianLock(() =>
    runCommand("apt-get", ["update", "-qq"], { environment: ENVIRONMENT, limitMs: APT_LIMIT_MS }),
  );
  return hasCandidate();
}

/** Returns those of the named packages that dpkg does not list as installed. */
export function missingDebianPackages(packages: readonly string[], statusPath?: string): string[] {
  const installed = installedDebianPackages(statusPath);
  if (installed !== undefined) return packages.filter((name) => !installed.has(name));
  throw new Error(
    `Cannot read what is installed, so this is not Debian; install by hand what provides: ${packages.join(" ")}`,
  );
}

/** Returns the packages that dpkg lists as installed; undefined without dpkg. */
export function installedDebianPackages(statusPath = "/var/lib/dpkg/status"): ReadonlySet<string> | undefined {
  const status = readIfThere(statusPath);
  if (status === undefined) return undefined;
  const installed = new Set<string>();
  for (const paragraph of status.split("\n\n")) {
    const name = /^Package: (.+)$/m.exec(paragraph)?.[1];
    if (name !== undefined && /^Status: \S+ \S+ installed$/m.test(paragraph)) installed.add(name);
  }
  return installed;
}

/** Longer than the slowest installation takes. */
const LIMIT_MS = 30 * 60_000;

/** Runs `work` while no other command of this project uses apt, which refuses to run twice at the same time. */
export function withDebianLock<Result>(work: () => Promise<Result>): Promise<Result> {
  const what = "Debian's packages";
  return withFileLock(join(cacheFolder(), "debian.lock"), { what, limitMs: LIMIT_MS }, work);
}

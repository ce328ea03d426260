import { existsSync } from "node:fs";
import { installDebianPackages, isDebianPackage } from "../debian-packages.ts";
import { versionAtLeast } from "../kubernetes/version-at-least.ts";
import type { Log } from "../log.ts";
import { runCommand } from "../process/run-command.ts";
import { findOnPath } from "./find-on-path.ts";

const DEBIAN_VERSIONS = ["1.26", "1.25", "1.24"];

/**
 * Returns a Go command that is new enough: the user's, else one that Debian has for this release, else undefined.
 *
 * @param options.minimum such as `1.24`
 */
export async function findGoToolchain(
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

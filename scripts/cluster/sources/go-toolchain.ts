import { existsSync } from "node:fs";
import { installDebianPackages, isDebianPackage } from "../debian-packages.ts";
import { versionAtLeast } from "../kubernetes/version-at-least.ts";
import type { Log } from "../log.ts";
import { runCommand } from "../process/run-command.ts";
import { findOnPath } from "./find-on-path.ts";

/** What `go/go.mod` asks for. */
export const MINIMUM_GO = "1.24";

const DEBIAN_VERSIONS = ["1.26", "1.25", "1.24"];

/** Returns a Go command that is new enough: the user's, else one that Debian has for this release, else undefined. */
export async function findGoToolchain(environment: NodeJS.ProcessEnv, log: Log): Promise<string | undefined> {
  const debian = DEBIAN_VERSIONS.map((version) => `/usr/lib/go-${version}/bin/go`);
  const candidates = [findOnPath("go", environment), "/usr/local/go/bin/go", ...debian];
  for (const candidate of candidates) {
    if (candidate !== undefined && existsSync(candidate) && (await isNewEnough(candidate, environment)))
      return candidate;
  }
  if (process.getuid?.() !== 0 || findOnPath("apt-cache", environment) === undefined) return undefined;
  for (const version of DEBIAN_VERSIONS) {
    if (!(await isDebianPackage(`golang-${version}-go`, log))) continue;
    await installDebianPackages([`golang-${version}-go`], log);
    return `/usr/lib/go-${version}/bin/go`;
  }
  return undefined;
}

async function isNewEnough(go: string, environment: NodeJS.ProcessEnv): Promise<boolean> {
  const output = await runCommand(go, ["env", "GOVERSION"], { environment: { ...environment, GOTOOLCHAIN: "local" } });
  const version = /^go(\d+\.\d+)/.exec(output.trim())?.[1];
  return version !== undefined && versionAtLeast(version, MINIMUM_GO);
}

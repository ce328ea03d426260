import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { installDebianPackages } from "../debian-packages.ts";
import { binariesFolder } from "../folders.ts";
import { type Log, silent } from "../log.ts";
import { findOnPath, isProgram } from "../sources/find-on-path.ts";

/**
 * Returns the path of kubectl: the one in the folder that TENANCY_K8S_BIN names, or that came with a cluster's programs
 * and so has the server's version (before 1.34 `exec` may lose output), else the user's own, else Debian's, installed
 * now.
 */
export async function findKubectl(log: Log = silent): Promise<string> {
  const named = join(process.env.TENANCY_K8S_BIN || "/nowhere", "kubectl");
  if (isProgram(named)) return named;
  const sets = binariesFolder();
  const cached = existsSync(sets)
    ? readdirSync(sets)
        .map((set) => join(sets, set, "kubectl"))
        .find(isProgram)
    : undefined;
  if (cached !== undefined) return cached;
  const own = findOnPath("kubectl");
  if (own !== undefined) return own;
  await installDebianPackages(["kubernetes-client"], log);
  const installed = findOnPath("kubectl");
  if (installed === undefined) throw new Error("Cannot find kubectl, although kubernetes-client is installed");
  return installed;
}

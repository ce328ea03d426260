import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { cacheFolder } from "../folders.ts";
import { type Log, silent } from "../log.ts";
import { withFileLock } from "../process/file-lock.ts";
import { KUBERNETES_VERSION } from "../sources/binaries-source.ts";
import { buildGo } from "../sources/build-go.ts";
import { isProgram } from "../sources/find-on-path.ts";

const PROGRAM = "helm";
const MODULE_FOLDER = fileURLToPath(new URL("../go-helm", import.meta.url));
/** The Kubernetes whose kinds it knows, which is that of its modules. */
const [MAJOR, MINOR] = KUBERNETES_VERSION.slice(1).split(".");
const LINKER_FLAGS = ["chartutil", "lint/rules"].flatMap((name) => [
  `-X helm.sh/helm/v3/pkg/${name}.k8sVersionMajor=${MAJOR}`,
  `-X helm.sh/helm/v3/pkg/${name}.k8sVersionMinor=${MINOR}`,
]);
const LOCK_LIMIT_MS = 30 * 60_000;

/**
 * Returns the path of Helm: in the cache, or built now from Go modules. Its modules are those of `../go` in the same
 * versions, so that most of it is in Go's cache where Kubernetes was built.
 *
 * @throws Error when there is none and none can be built
 */
export async function findHelm(log: Log = silent): Promise<string> {
  const home = join(cacheFolder(), PROGRAM);
  const folder = join(home, sourceDigest());
  const path = join(folder, PROGRAM);
  if (isProgram(path)) return path;
  const onWait = ({ pid }: { pid: number }): void => log(`waiting for process ${pid}, which builds Helm`);
  const refused = await withFileLock(join(home, "lock"), { what: "Helm", limitMs: LOCK_LIMIT_MS, onWait }, async () => {
    if (isProgram(path)) return undefined;
    return await buildGo({
      ...{ what: "Helm", moduleFolder: MODULE_FOLDER, firstModule: "helm.sh/helm/v3", reachMs: 30_000 },
      ...{ packages: ["helm.sh/helm/v3/cmd/helm"], minimumGo: "1.24", linkerFlags: LINKER_FLAGS },
      ...{ duration: "2 minutes on two cores; half a minute when Kubernetes was built here" },
      ...{ folder, environment: process.env, log },
    });
  });
  if (refused !== undefined) throw new Error(`Cannot find Helm: ${refused.because}`);
  return path;
}

function sourceDigest(): string {
  const hash = createHash("sha256").update(LINKER_FLAGS.join(" "));
  for (const file of ["go.mod", "go.sum"]) hash.update(readFileSync(join(MODULE_FOLDER, file)));
  return hash.digest("hex").slice(0, 12);
}

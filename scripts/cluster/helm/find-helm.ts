import { fileURLToPath } from "node:url";
import type { Log } from "../log.ts";
import { KUBERNETES_VERSION } from "../sources/binaries-source.ts";
import { cachedGoProgram } from "../sources/cached-go-program.ts";

/** The Kubernetes whose kinds it knows, which is that of its modules. */
const [MAJOR, MINOR] = KUBERNETES_VERSION.slice(1).split(".");

/**
 * Returns the path of Helm: in the cache, or built now from Go modules. Its modules are those of `../go` in the same
 * versions, so that most of it is in Go's cache where Kubernetes was built.
 *
 * @throws Error when there is none and none can be built
 */
export function findHelm(log?: Log): Promise<string> {
  return cachedGoProgram({
    ...{ program: "helm", cache: "helm", what: "Helm", ...(log !== undefined && { log }) },
    ...{ moduleFolder: fileURLToPath(new URL("../go-helm", import.meta.url)), minimumGo: "1.24" },
    ...{ firstModule: "helm.sh/helm/v3", reachMs: 30_000, packages: ["helm.sh/helm/v3/cmd/helm"] },
    duration: "2 minutes on two cores; half a minute when Kubernetes was built here",
    linkerFlags: ["chartutil", "lint/rules"].flatMap((name) => [
      `-X helm.sh/helm/v3/pkg/${name}.k8sVersionMajor=${MAJOR}`,
      `-X helm.sh/helm/v3/pkg/${name}.k8sVersionMinor=${MINOR}`,
    ]),
  });
}

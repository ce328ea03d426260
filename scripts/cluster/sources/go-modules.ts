import { renameSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type BinariesSource, KUBERNETES_VERSION } from "./binaries-source.ts";
import { buildGo } from "./build-go.ts";

/** The module `k8s.io/kubernetes` and etcd, built by a Go toolchain that is there or that Debian has. */
export const goModulesSource: BinariesSource = {
  name: "go-modules",
  takesLong: true,
  async find({ environment, binariesFolder, log }) {
    const folder = join(binariesFolder, `go-modules-${KUBERNETES_VERSION}`);
    const refused = await buildGo({
      what: `Kubernetes ${KUBERNETES_VERSION}`,
      moduleFolder: fileURLToPath(new URL("../go", import.meta.url)),
      firstModule: "k8s.io/component-helpers",
      reachMs: 30_000,
      packages: [
        "go.etcd.io/etcd/server/v3",
        "k8s.io/kubernetes/cmd/kube-apiserver",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-scheduler",
        "k8s.io/kubernetes/cmd/kubectl",
        "k8s.io/kubernetes/cmd/kubelet",
      ],
      // What `go/go.mod` asks for.
      minimumGo: "1.24",
      linkerFlags: linkerFlags(),
      duration: "5 minutes on two cores; one minute when most of it is in Go's cache",
      folder,
      finish: (built) => renameSync(join(built, "server"), join(built, "etcd")),
      ...{ environment, log },
    });
    return refused ?? { folder, version: KUBERNETES_VERSION };
  },
};

function linkerFlags(): string[] {
  const [major, minor] = KUBERNETES_VERSION.slice(1).split(".");
  return ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"].flatMap((path) => [
    `-X ${path}.gitVersion=${KUBERNETES_VERSION}`,
    `-X ${path}.gitMajor=${major}`,
    `-X ${path}.gitMinor=${minor}`,
  ]);
}

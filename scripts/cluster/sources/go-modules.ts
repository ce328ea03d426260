import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { installDebianPackages } from "../debian-packages.ts";
import { runCommand } from "../process/run-command.ts";
import { runWithLines } from "../process/run-with-lines.ts";
import type { BinariesSource, SourceContext } from "./binaries-source.ts";
import { findGoToolchain, MINIMUM_GO } from "./go-toolchain.ts";
import { KUBERNETES_VERSION } from "./kubernetes-version.ts";
import { withProgress } from "./progress.ts";

const MODULE_FOLDER = fileURLToPath(new URL("../go", import.meta.url));
const PACKAGES = [
  "go.etcd.io/etcd/server/v3",
  "k8s.io/kubernetes/cmd/kube-apiserver",
  "k8s.io/kubernetes/cmd/kube-controller-manager",
  "k8s.io/kubernetes/cmd/kube-scheduler",
  "k8s.io/kubernetes/cmd/kubectl",
  "k8s.io/kubernetes/cmd/kubelet",
];
const REACH_LIMIT_MS = 30_000;
const BUILD_LIMIT_MS = 60 * 60_000;

/**
 * The module `k8s.io/kubernetes` and etcd, built by a Go toolchain that is there or that Debian has. Go's own caches make
 * it go on where an interrupted build stopped.
 */
export const goModulesSource: BinariesSource = {
  name: "go-modules",
  takesLong: true,
  async find(context) {
    const { environment, binariesFolder, log } = context;
    const go = await findGoToolchain(environment, log);
    if (go === undefined) return { because: `no Go toolchain of version ${MINIMUM_GO} or later` };
    // Without them Go trusts no module proxy; a fresh Debian has none.
    if (!existsSync("/etc/ssl/certs/ca-certificates.crt")) await installDebianPackages(["ca-certificates"], log);
    const goEnvironment = { ...environment, GOTOOLCHAIN: "local", GOWORK: "off", GOFLAGS: "", CGO_ENABLED: "0" };
    try {
      // The smallest of the modules that are needed anyway tells whether a module proxy can be reached.
      await runCommand(go, ["mod", "download", "k8s.io/component-helpers"], {
        folder: MODULE_FOLDER,
        environment: goEnvironment,
        limitMs: REACH_LIMIT_MS,
      });
    } catch (error) {
      return { because: `no Go module proxy answers: ${(error as Error).message}` };
    }
    const folder = join(binariesFolder, `go-modules-${KUBERNETES_VERSION}`);
    await build(go, goEnvironment, folder, context);
    return { folder, version: KUBERNETES_VERSION };
  },
};

async function build(
  go: string,
  environment: NodeJS.ProcessEnv,
  folder: string,
  { log }: SourceContext,
): Promise<void> {
  const unfinished = `${folder}.unfinished`;
  rmSync(unfinished, { recursive: true, force: true });
  mkdirSync(unfinished, { recursive: true });
  const run = (goArguments: string[], onLine: (line: string) => void): Promise<void> =>
    runWithLines("nice", ["-n", "10", go, ...goArguments], {
      folder: MODULE_FOLDER,
      environment,
      limitMs: BUILD_LIMIT_MS,
      onLine,
    });
  log(`fetching the Go modules of Kubernetes ${KUBERNETES_VERSION}`);
  let modules = 0;
  let packages = 0;
  await withProgress(log, (update) =>
    run(["list", "-mod=readonly", "-deps", ...PACKAGES], (line) => {
      if (line.startsWith("go: downloading")) update(`fetched ${++modules} modules`);
      else packages += 1;
    }),
  );
  log(`compiling ${packages} packages (5 minutes on two cores; one minute when most of it is in Go's cache)`);
  let compiled = 0;
  const flags = [
    "-mod=readonly",
    "-trimpath",
    "-buildvcs=false",
    "-v",
    "-ldflags",
    linkerFlags(),
    "-o",
    `${unfinished}/`,
  ];
  await withProgress(log, (update) =>
    run(["build", ...flags, ...PACKAGES], () => update(`compiled ${++compiled} of up to ${packages} packages`)),
  );
  renameSync(join(unfinished, "server"), join(unfinished, "etcd"));
  rmSync(folder, { recursive: true, force: true });
  renameSync(unfinished, folder);
}

function linkerFlags(): string {
  const [major, minor] = KUBERNETES_VERSION.slice(1).split(".");
  const versions = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"].flatMap((path) => [
    `-X ${path}.gitVersion=${KUBERNETES_VERSION}`,
    `-X ${path}.gitMajor=${major}`,
    `-X ${path}.gitMinor=${minor}`,
  ]);
  return ["-s", "-w", ...versions].join(" ");
}

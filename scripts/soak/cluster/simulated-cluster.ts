import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { findBinaries } from "../../cluster/binaries.ts";
import { startControlPlane } from "../../cluster/control-plane.ts";
import { findStaticBusybox } from "../../cluster/images/busybox.ts";
import { createApiClient } from "../../cluster/kubernetes/api-client.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../cluster/programs.ts";
import { bundleSnapshots } from "../../start/bundle-programs.ts";
import { decisionsOf } from "../decisions.ts";
import { STARTED, TOLD } from "../objects.ts";
import { PAIRS } from "../tenants.ts";
import { createExecEndpoint } from "./exec-endpoint.ts";
import { startKubelet } from "./kubelet.ts";
import { makePodBase } from "./pod-files.ts";
import type { SoakCluster, SoakClusterOptions } from "./soak-cluster.ts";

/** Starts an API server with nodes that exist in name only, whose pods are folders. */
export async function startSimulatedCluster({
  seed,
  log,
  tree,
  onTrouble,
  onStop,
}: SoakClusterOptions): Promise<SoakCluster> {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-soak-"));
  onStop(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));
  const binaries = await findBinaries({ need: [...CONTROL_PLANE_PROGRAMS, "kubectl"], log });
  // An older one execs over SPDY, which is not played here.
  const { kubectl } = binaries.programs;
  if (kubectl !== undefined) process.env.PATH = `${dirname(kubectl)}:${process.env.PATH}`;
  const controlPlane = await startControlPlane({ name: `soak-${process.pid}`, binaries, log });
  onStop(() => controlPlane.stop());
  const { kubeconfigPath } = controlPlane;
  const api = createApiClient(kubeconfigPath);
  onStop(() => api.close());

  const podsFolder = join(folder, "pods");
  const volume = join(podsFolder, "volume");
  mkdirSync(volume, { recursive: true });
  const base = await makePodBase(folder, await findStaticBusybox(log));
  const kubelet = await startKubelet({
    ...{ api, folder: podsFolder, base, helper: await bundleSnapshots(tree), onTrouble },
    decisions: decisionsOf(seed, "kubelet"),
  });
  onStop(() => kubelet.stop());
  const answerExec = createExecEndpoint(kubelet);
  return {
    ...{ api, kubeconfigPath, pods: kubelet, volume, snapshots: join(volume, "snapshots") },
    onExec: (pod, request, connection) => void answerExec(pod, request, connection).catch(onTrouble),
    poolSizes: { c: 2, "b-c": 1, guarded: 2, idle: 1, [TOLD]: 1 },
    // No workload's program runs here.
    pairs: PAIRS.filter(({ workloadRef }) => workloadRef !== STARTED),
    mustRestMs: 120_000,
    helperPort: kubelet.helperPort,
    environment: {
      TENANCY_SNAPSHOT_STORAGE_CLASS: "",
      TENANCY_SNAPSHOT_IMAGE: "simulated/snapshots:1",
      // What goes wrong on the way is made by the proxies.
      TENANCY_SNAPSHOT_ACCESS: "api-server",
    },
  };
}

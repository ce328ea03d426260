import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import type { Workload } from "../../../crds/workload.ts";
import { operatorConfig } from "../../../operator/config.ts";
import { type FileOwner, renderPod } from "../../../operator/pod/render-pod.ts";
import { renderSnapshotsPod } from "../../../operator/snapshots/snapshots-pod.ts";

const config = operatorConfig({});
const image = { ref: "simulated/hello:1" };
const everything: Workload["spec"] = {
  image,
  version: "2",
  resources: { vcpus: 2, memoryMb: 64, diskGb: 3 },
  network: { access: "unrestricted", ports: [8080, 9000] },
  idle: { timeoutSeconds: 60, action: "destroy" },
  filesystem: { overlayDirs: ["/data", "/home/user"] },
  health: { httpGet: { path: "/health", port: 8080 } },
  entrypoint: { cmd: "/bin/run", args: ["-x"], env: { A: "b" }, workdir: "/srv" },
};

/** A pod of everything that a workload can ask for. */
export function fullPod(name: string, more: { runsAsRoot?: boolean; restoreAs?: FileOwner } = {}): Pod {
  return rendered(name, everything, more);
}

/** Every kind of pod that the operator makes, by what is particular to it; `restricted` where that level of Pod Security takes it. */
export const renderedPods: readonly { what: string; pod: Pod; restricted: boolean }[] = [
  { what: "the least workload", pod: rendered("inst-least", { image }), restricted: true },
  { what: "everything a workload can ask for", pod: fullPod("inst-full"), restricted: true },
  {
    what: "files restored before the start",
    pod: fullPod("inst-restored", { restoreAs: { uid: 1000, gid: 1000 } }),
    restricted: true,
  },
  {
    what: "an image that runs as root",
    pod: rendered("inst-root", { image }, { runsAsRoot: true }),
    restricted: false,
  },
  {
    what: "files of a program that runs as root",
    pod: fullPod("inst-root-restored", { runsAsRoot: true, restoreAs: { uid: 0, gid: 0 } }),
    restricted: false,
  },
  {
    what: "a warm pod",
    pod: rendered("inst-pool-app-x", { image }, { labels: { [label.pool]: "app", [label.poolStatus]: "warming" } }),
    restricted: true,
  },
  {
    what: "the helper pod",
    pod: renderSnapshotsPod({ namespace: config.namespace, image: config.toolsImage }),
    restricted: true,
  },
];

function rendered(
  name: string,
  spec: Workload["spec"],
  more: { runsAsRoot?: boolean; restoreAs?: FileOwner; labels?: Record<string, string> } = {},
): Pod {
  const workload: Workload = {
    metadata: { name: "app", namespace: config.namespace, uid: "u", generation: 1 },
    spec,
    status: { phase: "Ready", ...(more.runsAsRoot && { runsAsRoot: true }) },
  };
  const identity = {
    name,
    labels: more.labels ?? { [label.tenant]: "alice" },
    annotations: more.labels === undefined ? { [annotation.claimUid]: "c", [annotation.claim]: "claim-alice-app" } : {},
  };
  return renderPod(workload, identity, config, { restoreAs: more.restoreAs });
}

import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import type { Workload } from "../../../crds/workload.ts";
import { operatorConfig } from "../../../operator/config.ts";
import { type FileOwner, renderPod } from "../../../operator/pod/render-pod.ts";
import { renderPrepullPod } from "../../../operator/prepull/prepull-pod.ts";
import { renderSnapshotsPod } from "../../../operator/snapshots/helper-pod.ts";

const config = operatorConfig({ TENANCY_PROXY_IMAGE: "simulated/proxy:1" });
const image = { ref: "simulated/hello:1" };
const everything: Workload["spec"] = {
  image: { ...image, pullPolicy: "IfNotPresent", pullSecrets: [{ name: "registry" }] },
  version: "2",
  resources: {
    ...{ milliCpus: 1500, memoryMb: 64, diskGb: 3 },
    requests: { milliCpus: 100, memoryMb: 32 },
    extended: { "example.com/gpu": 1 },
  },
  scheduling: {
    nodeSelector: { pool: "tenants" },
    tolerations: [
      { key: "pool", operator: "Exists", effect: "NoSchedule" },
      { key: "node.kubernetes.io/unreachable", operator: "Exists", effect: "NoExecute", tolerationSeconds: 30 },
    ],
    affinity: {
      podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: [{ topologyKey: "kubernetes.io/hostname" }] },
    },
    topologySpreadConstraints: [{ maxSkew: 1, topologyKey: "zone", whenUnsatisfiable: "DoNotSchedule", minDomains: 2 }],
    schedulerName: "default-scheduler",
  },
  network: { access: "unrestricted", ports: [8080, 9000] },
  idle: { timeoutSeconds: 60, action: "destroy" },
  filesystem: { overlayDirs: ["/data", "/home/user"] },
  volumes: [
    { mountPath: "/etc/settings", configMap: { name: "settings", items: [{ key: "a", path: "b" }], defaultMode: 365 } },
    { mountPath: "/etc/keys", secret: { secretName: "keys" } },
    { mountPath: "/models", persistentVolumeClaim: { claimName: "models" } },
    { mountPath: "/scratch", emptyDir: { sizeMb: 16 } },
  ],
  health: { httpGet: { path: "/health", port: 8080 } },
  entrypoint: {
    ...{ cmd: "/bin/run", args: ["-x"], env: { A: "b" }, workdir: "/srv" },
    envFrom: [{ prefix: "A_", configMapRef: { name: "settings" } }, { secretRef: { name: "keys" } }],
  },
};

const proxied: Workload["spec"] = {
  ...everything,
  network: {
    access: "restricted",
    ports: [8080],
    allowlist: ["allowed.example"],
    credentials: [
      {
        domain: "api.example",
        headers: [{ name: "Authorization", valueFrom: { secretKeyRef: { name: "vault", key: "token" } } }],
      },
    ],
  },
};

/** The levels of Pod Security, https://kubernetes.io/docs/concepts/security/pod-security-standards/ */
export type Level = "restricted" | "baseline" | "privileged";

/** A pod with the proxy, its credentials, and the redirect in the tools' container. */
export function proxiedPod(name: string, more: { restoreAs?: FileOwner } = {}): Pod {
  return rendered(name, proxied, more);
}

/** A pod of everything that a workload can ask for. */
export function fullPod(name: string, more: { runsAsRoot?: boolean; restoreAs?: FileOwner } = {}): Pod {
  return rendered(name, everything, more);
}

/**
 * Every kind of pod that the operator makes, by what is particular to it, and the strictest level of Pod Security that
 * takes it.
 */
export const renderedPods: readonly { what: string; pod: Pod; level: Level }[] = [
  { what: "the least workload", pod: rendered("inst-least", { image }), level: "restricted" },
  { what: "everything a workload can ask for", pod: fullPod("inst-full"), level: "restricted" },
  {
    what: "files restored before the start",
    pod: fullPod("inst-restored", { restoreAs: { uid: 1000, gid: 1000 } }),
    level: "restricted",
  },
  {
    what: "an image that runs as root",
    pod: rendered("inst-root", { image }, { runsAsRoot: true }),
    level: "baseline",
  },
  {
    what: "files of a program that runs as root",
    pod: fullPod("inst-root-restored", { runsAsRoot: true, restoreAs: { uid: 0, gid: 0 } }),
    level: "baseline",
  },
  {
    what: "a warm pod",
    pod: rendered("inst-pool-app-x", { image }, { labels: { [label.pool]: "app", [label.poolStatus]: "warming" } }),
    level: "restricted",
  },
  {
    what: "an allowlist",
    pod: rendered("inst-listed", { image, network: { access: "restricted", allowlist: ["allowed.example"] } }),
    level: "privileged",
  },
  {
    what: "an allowlist, credentials and directories that are kept",
    pod: proxiedPod("inst-proxied"),
    level: "privileged",
  },
  {
    what: "the same with files restored before the start",
    pod: proxiedPod("inst-proxied-restored", { restoreAs: { uid: 1000, gid: 1000 } }),
    level: "privileged",
  },
  {
    what: "a warm pod with credentials",
    pod: rendered("inst-pool-app-y", proxied, { labels: { [label.pool]: "app", [label.poolStatus]: "warming" } }),
    level: "privileged",
  },
  {
    what: "a pod that makes a node pull an image",
    pod: renderPrepullPod(
      { metadata: { name: "app", namespace: config.namespace, uid: "u" }, spec: everything },
      { node: "simulated-0", config },
    ),
    level: "restricted",
  },
  {
    what: "the helper pod",
    pod: renderSnapshotsPod({ namespace: config.namespace, program: { image: "operator:1" }, logLevel: "info" }),
    level: "restricted",
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

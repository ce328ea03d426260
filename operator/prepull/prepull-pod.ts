import { createHash } from "node:crypto";
import type { NetworkPolicy, Pod, PodSpec } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import type { Workload } from "../../crds/workload.ts";
import type { OperatorConfig } from "../config.ts";
import { imageToPull, pullSecretsOf } from "../pod/render-pod.ts";
import { podTools, TOOLS_BUSYBOX } from "../snapshots/pods/pod-tools.ts";

const CONTAINER = "image";
const USER = 65532;
/** A large image over a slow line. */
export const PULL_SECONDS = 900;

/**
 * A pod that makes one node pull the workload's image, and ends. It runs a program of ours in the image, which may have
 * none that ends by itself, and has nothing of the workload but its image, its logins and its runtime.
 */
export function renderPrepullPod(workload: Workload, { node, config }: { node: string; config: OperatorConfig }): Pod {
  const { name, uid = "" } = workload.metadata;
  const image = imageToPull(workload);
  const tools = podTools({ image: config.toolsImage, overlayDirs: [], diskGb: 1, isAsked: true });
  const pulledWith = pullSecretsOf(workload, config.builds);
  const { runtimeClassName, scheduling } = workload.spec;
  const suffix = createHash("sha256").update([uid, node, image].join("\n")).digest("hex").slice(0, 20);
  const spec: PodSpec = {
    // The node is known: nothing is left for the scheduler, which could put the pod elsewhere.
    nodeName: node,
    restartPolicy: "Never",
    activeDeadlineSeconds: PULL_SECONDS,
    terminationGracePeriodSeconds: 0,
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    ...(runtimeClassName !== undefined && { runtimeClassName }),
    ...(scheduling?.tolerations !== undefined && { tolerations: scheduling.tolerations }),
    ...(pulledWith !== undefined && { imagePullSecrets: pulledWith.map((secret) => ({ name: secret })) }),
    securityContext: {
      ...{ runAsUser: USER, runAsGroup: USER, runAsNonRoot: true },
      seccompProfile: { type: "RuntimeDefault" },
    },
    initContainers: tools.initContainers,
    containers: [
      {
        ...{ name: CONTAINER, image, imagePullPolicy: "IfNotPresent", command: [TOOLS_BUSYBOX, "true"] },
        volumeMounts: tools.volumeMounts,
        resources: {
          limits: { cpu: "1", memory: "64Mi", "ephemeral-storage": "64Mi" },
          requests: { cpu: "10m", memory: "16Mi", "ephemeral-storage": "16Mi" },
        },
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        },
      },
    ],
    volumes: tools.volumes,
  };
  return {
    ...{ apiVersion: "v1", kind: "Pod" },
    metadata: {
      // A retry of the creation cannot make a second one.
      name: `prepull-${suffix}`,
      namespace: config.namespace,
      labels: { [label.prepull]: name },
    },
    spec,
  };
}

/** Closes the pods in both directions. */
export function renderPrepullPolicy(namespace: string): NetworkPolicy {
  return {
    ...{ apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy" },
    metadata: { name: "tenancy-prepull", namespace, labels: { [label.managed]: "true" } },
    spec: {
      podSelector: { matchExpressions: [{ key: label.prepull, operator: "Exists" }] },
      policyTypes: ["Ingress", "Egress"],
    },
  };
}

export type PullState =
  | { readonly state: "pulling" | "pulled" }
  | { readonly state: "failed"; readonly message: string };

/** After these a kubelet has the image: it pulls it before it makes the container. */
const AFTER_THE_PULL = ["CreateContainerError", "RunContainerError", "CreateContainerConfigError"];
/** The kubelet tries again after the first error by itself. */
const FAILED_PULLS = [
  "ImagePullBackOff",
  "InvalidImageName",
  "ErrImageNeverPull",
  "ImageInspectError",
  "RegistryUnavailable",
  "SignatureValidationFailed",
];
/** Of a container that the kubelet never made, in a pod that it had to end. */
const NEVER_MADE = "ContainerStatusUnknown";

/** Whether the node has the image by what the kubelet says of the pod. */
export function pullState({ status }: Pod): PullState {
  const own = status?.containerStatuses?.find(({ name }) => name === CONTAINER)?.state;
  const waitsFor = own?.waiting?.reason ?? "";
  const hasRun = own?.running !== undefined || (own?.terminated ?? { reason: NEVER_MADE }).reason !== NEVER_MADE;
  if (hasRun || AFTER_THE_PULL.includes(waitsFor)) return { state: "pulled" };
  const waiting = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])].map(
    ({ state }) => state?.waiting,
  );
  const failed = waiting.find((one) => FAILED_PULLS.includes(one?.reason ?? ""));
  if (failed !== undefined) return { state: "failed", message: failed.message ?? failed.reason ?? "" };
  if (status?.phase === "Succeeded") return { state: "pulled" };
  if (status?.phase !== "Failed") return { state: "pulling" };
  return { state: "failed", message: [status.reason, status.message].filter(Boolean).join(": ") || "the pod failed" };
}

import { createHash } from "node:crypto";
import type { NetworkPolicy, PersistentVolumeClaim, Pod, PodSpec } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import type { VolumePlace } from "../../crds/snapshots/store-config.ts";
import { STORE_PORT } from "../../crds/snapshots/store-endpoint.ts";
import { SNAPSHOTS_CONTAINER, SNAPSHOTS_LABELS, SNAPSHOTS_NAME } from "../../crds/snapshots/store-folder.ts";

const USER = 65532;

/** The program of the helper pod. */
export interface HelperProgram {
  readonly image: string;
  /** A ConfigMap with the program, for an image with only Node. @default the image has the program */
  readonly configMap?: string | undefined;
  readonly pullSecrets?: PodSpec["imagePullSecrets"];
}

/** The program's key in the ConfigMap. */
export const PROGRAM_KEY = "snapshots.mjs";

/**
 * Renders the pod that serves the archives. Only this pod mounts the snapshots volume. It has no labels of an instance.
 */
export function renderSnapshotsPod(options: { namespace: string; program: HelperProgram; logLevel: string }): Pod {
  const { namespace, program, logLevel } = options;
  const { image, configMap, pullSecrets } = program;
  const spec: PodSpec = {
    restartPolicy: "Always",
    terminationGracePeriodSeconds: 5,
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    ...(pullSecrets !== undefined && { imagePullSecrets: pullSecrets }),
    securityContext: {
      runAsUser: USER,
      runAsGroup: USER,
      runAsNonRoot: true,
      fsGroup: USER,
      fsGroupChangePolicy: "OnRootMismatch",
      seccompProfile: { type: "RuntimeDefault" },
    },
    containers: [
      {
        name: SNAPSHOTS_CONTAINER,
        image,
        // The entrypoint of the operator's image runs the program.
        ...(configMap === undefined ? { args: ["snapshots"] } : { command: ["node", `/program/${PROGRAM_KEY}`] }),
        env: [
          // Streamed archives are outside the heap: with eight at the same time, the process takes 120 MiB.
          { name: "NODE_OPTIONS", value: "--max-old-space-size=96" },
          { name: "TENANCY_LOG_LEVEL", value: logLevel },
          { name: "TENANCY_POD_UID", valueFrom: { fieldRef: { fieldPath: "metadata.uid" } } },
        ],
        ports: [{ name: "snapshots", containerPort: STORE_PORT }],
        resources: {
          limits: { cpu: "1", memory: "256Mi" },
          requests: { cpu: "50m", memory: "64Mi" },
        },
        readinessProbe: {
          httpGet: { path: "/healthz", port: STORE_PORT, scheme: "HTTPS" },
          periodSeconds: 5,
          timeoutSeconds: 5,
        },
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        },
        volumeMounts: [
          { name: "snapshots", mountPath: "/snapshots" },
          { name: "secrets", mountPath: "/etc/tenancy-snapshots", readOnly: true },
          ...(configMap === undefined ? [] : [{ name: "program", mountPath: "/program", readOnly: true }]),
        ],
      },
    ],
    volumes: [
      { name: "snapshots", persistentVolumeClaim: { claimName: SNAPSHOTS_NAME } },
      { name: "secrets", secret: { secretName: SNAPSHOTS_NAME, defaultMode: 0o440 } },
      ...(configMap === undefined ? [] : [{ name: "program", configMap: { name: configMap } }]),
    ],
  };
  const hash = createHash("sha256").update(JSON.stringify(spec)).digest("hex").slice(0, 16);
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      ...{ name: SNAPSHOTS_NAME, namespace, labels: SNAPSHOTS_LABELS },
      annotations: { [annotation.templateHash]: hash },
    },
    spec,
  };
}

/** Whether another version or configuration of the operator created the helper pod. */
export function isHelperOutdated(pod: Pod, wanted: Pod): boolean {
  const [hash, wantedHash] = [pod, wanted].map(({ metadata }) => metadata.annotations?.[annotation.templateHash]);
  return hash !== wantedHash;
}

interface SnapshotsVolumeOptions {
  readonly namespace: string;
  /** A quantity, `TENANCY_SNAPSHOT_SIZE`, such as `10Gi`. */
  readonly size: string;
  /** `TENANCY_SNAPSHOT_STORAGE_CLASS`. @default the cluster's own */
  readonly storageClass?: string | undefined;
}

/**
 * Renders the claim of the snapshots volume.
 *
 * Follows https://kubernetes.io/docs/concepts/storage/persistent-volumes/#persistentvolumeclaims
 */
export function renderSnapshotsClaim({ namespace, size, storageClass }: SnapshotsVolumeOptions): PersistentVolumeClaim {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: { name: SNAPSHOTS_NAME, namespace, labels: SNAPSHOTS_LABELS },
    spec: {
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: size } },
      ...(storageClass !== undefined && { storageClassName: storageClass }),
    },
  };
}

/**
 * Renders the helper pod's network policy: no outbound traffic, and inbound traffic only from the operator and the
 * edges. If these connect through the API server, the policy allows all sources, since it cannot name that address;
 * then only the certificate and the token protect the pod.
 */
export function renderSnapshotsPolicy({
  namespace,
  access,
}: { namespace: string } & Pick<VolumePlace, "access">): NetworkPolicy {
  const clients = [{ "app.kubernetes.io/name": "tenancy-operator" }, { "app.kubernetes.io/component": "edge" }];
  const from = clients.map((matchLabels) => ({ podSelector: { matchLabels } }));
  const ports = [{ port: STORE_PORT, protocol: "TCP" }];
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: SNAPSHOTS_NAME, namespace, labels: { ...SNAPSHOTS_LABELS, [label.managed]: "true" } },
    spec: {
      podSelector: { matchLabels: SNAPSHOTS_LABELS },
      policyTypes: ["Ingress", "Egress"],
      ingress: [access === "direct" ? { from, ports } : { ports }],
    },
  };
}

/** Whether the helper pod's program runs; its readiness probe may succeed some seconds later. */
export function isHelperRunning({ metadata, status }: Pod): boolean {
  return metadata.deletionTimestamp === undefined && status?.containerStatuses?.[0]?.state?.running !== undefined;
}

import type { NetworkPolicy, PersistentVolumeClaim, Pod } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import { SNAPSHOTS_CONTAINER, SNAPSHOTS_LABELS, SNAPSHOTS_NAME } from "../../crds/snapshots/store-folder.ts";

const USER = 65532;

/**
 * Renders the pod that mounts the snapshots volume, which no other pod does. It runs nothing but what the store runs in
 * it, and is labelled as no instance.
 */
export function renderSnapshotsPod({ namespace, image }: { namespace: string; image: string }): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: SNAPSHOTS_NAME, namespace, labels: SNAPSHOTS_LABELS },
    spec: {
      restartPolicy: "Always",
      terminationGracePeriodSeconds: 5,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
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
          // Process 1 ends by a signal only when it handles it.
          command: [
            "/bin/busybox",
            "sh",
            "-c",
            "trap 'exit 0' TERM; while :; do /bin/busybox sleep 3600 & wait $!; done",
          ],
          resources: {
            limits: { cpu: "1", memory: "256Mi" },
            requests: { cpu: "50m", memory: "32Mi" },
          },
          readinessProbe: {
            exec: { command: ["/bin/busybox", "test", "-w", "/snapshots"] },
            periodSeconds: 10,
            timeoutSeconds: 5,
          },
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ["ALL"] },
          },
          volumeMounts: [{ name: "snapshots", mountPath: "/snapshots" }],
        },
      ],
      volumes: [{ name: "snapshots", persistentVolumeClaim: { claimName: SNAPSHOTS_NAME } }],
    },
  };
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

/** Renders the policy of the helper pod: it reaches nobody, and nobody reaches it; execs come through the kubelet. */
export function renderSnapshotsPolicy({ namespace }: { namespace: string }): NetworkPolicy {
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: SNAPSHOTS_NAME, namespace, labels: { ...SNAPSHOTS_LABELS, [label.managed]: "true" } },
    spec: { podSelector: { matchLabels: SNAPSHOTS_LABELS }, policyTypes: ["Ingress", "Egress"] },
  };
}

/** Whether commands can be run in the helper pod; its readiness probe may take some seconds more to say so. */
export function isHelperRunning({ metadata, status }: Pod): boolean {
  return metadata.deletionTimestamp === undefined && status?.containerStatuses?.[0]?.state?.running !== undefined;
}

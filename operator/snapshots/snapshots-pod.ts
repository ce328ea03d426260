import type { Pod } from "../../crds/kubernetes.ts";
import { SNAPSHOTS_CONTAINER, SNAPSHOTS_LABELS, SNAPSHOTS_NAME } from "../../crds/snapshots/snapshots-names.ts";

const USER = 65532;

/**
 * Renders the pod that mounts the snapshots volume, which no other pod does. It runs nothing but what the store runs in it, and is
 * labelled as no instance.
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

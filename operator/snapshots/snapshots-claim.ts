import type { PersistentVolumeClaim } from "../../crds/kubernetes.ts";
import { SNAPSHOTS_LABELS, SNAPSHOTS_NAME } from "../../crds/snapshots/snapshots-names.ts";

export interface SnapshotsVolumeOptions {
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

import type { KubernetesObject } from "../../crds/kubernetes.ts";
import { SNAPSHOTS_NAME } from "../../crds/snapshots/snapshots-names.ts";

/** A volume in a folder of the one node, for a cluster without a provisioner of volumes. */
export interface HostVolume extends KubernetesObject {
  readonly spec: {
    readonly capacity: { readonly storage: string };
    readonly accessModes: readonly string[];
    readonly persistentVolumeReclaimPolicy: "Retain";
    readonly storageClassName: "";
    readonly claimRef: { readonly namespace: string; readonly name: string };
    readonly hostPath: { readonly path: string; readonly type: "Directory" };
  };
}

/**
 * Renders the snapshots volume of a local cluster, kept for the claim of one namespace. The claim must name the storage class `""`.
 * The folder must be there and belong to user and group 65532, since the kubelet leaves the owner of such volumes alone.
 *
 * Follows https://kubernetes.io/docs/concepts/storage/volumes/#hostpath
 */
export function renderHostVolume(options: { namespace: string; size: string; path: string }): HostVolume {
  const { namespace, size, path } = options;
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name: `${SNAPSHOTS_NAME}-${namespace}` },
    spec: {
      capacity: { storage: size },
      accessModes: ["ReadWriteOnce"],
      persistentVolumeReclaimPolicy: "Retain",
      storageClassName: "",
      claimRef: { namespace, name: SNAPSHOTS_NAME },
      hostPath: { path, type: "Directory" },
    },
  };
}

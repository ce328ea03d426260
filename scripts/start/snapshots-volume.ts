import { chmodSync, chownSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { ifFound } from "../../crds/client/api-error.ts";
import { persistentVolumeClaims } from "../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import type { KubernetesObject } from "../../crds/kubernetes.ts";
import { defineResource, type Resource } from "../../crds/resource.ts";
import { SNAPSHOTS_NAME } from "../../crds/snapshots/store-folder.ts";

/** The user of the helper pod. */
const USER = 65532;
const DEFAULT_NAMESPACE = "tenancy";

/** A host volume in the cluster. The uid is that of the claim that it is or was bound to. */
interface BoundVolume extends HostVolume {
  readonly spec: HostVolume["spec"] & { readonly claimRef: { readonly uid?: string } };
}

const persistentVolumes = defineResource<BoundVolume>({
  group: "",
  version: "v1",
  plural: "persistentvolumes",
  kind: "PersistentVolume",
  namespaced: false,
});

/**
 * Creates the snapshots volume of a local cluster, which has no provisioner: a folder of this machine and its volume,
 * if they are missing. Archives in the folder stay.
 *
 * A volume whose claim was deleted is reserved for that claim's uid. It is released for the next claim of the name.
 *
 * @param options.folder for the volumes of the cluster; namespaces other than the default have a folder of their own in
 *   it
 * @param options.size a Kubernetes quantity, at least what the operator's claim asks for
 */
export async function makeSnapshotsVolume(options: {
  client: ClusterClient;
  namespace: string;
  folder: string;
  size: string;
  signal: AbortSignal;
}): Promise<void> {
  const { client, namespace, folder, size, signal } = options;
  const path = join(folder, namespace === DEFAULT_NAMESPACE ? "snapshots" : `snapshots-${namespace}`);
  mkdirSync(path, { recursive: true, mode: 0o700 });
  chmodSync(path, 0o700);
  chownSync(path, USER, USER);

  const volume = renderHostVolume({ namespace, size, path });
  const { name } = volume.metadata;
  const present = await find(persistentVolumes, { name });
  if (present === undefined) {
    await client.create(persistentVolumes, volume, { signal });
    return;
  }
  const { uid } = present.spec.claimRef;
  const claim = uid === undefined ? undefined : await find(persistentVolumeClaims, { namespace, name: SNAPSHOTS_NAME });
  if (claim !== undefined && claim.metadata.uid === uid) return;
  const { resourceVersion } = present.metadata;
  const spec = { capacity: volume.spec.capacity, claimRef: { uid: null, resourceVersion: null } };
  const body = { metadata: { resourceVersion }, spec };
  await client.patch(persistentVolumes, { name }, { type: "merge", body, signal });

  async function find<T extends KubernetesObject>(
    resource: Resource<T>,
    ref: { namespace?: string; name: string },
  ): Promise<T | undefined> {
    return ifFound(client.get(resource, ref, { signal }));
  }
}

/** A volume in a folder of the one node, for a cluster without a provisioner of volumes. */
interface HostVolume extends KubernetesObject {
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
 * Renders the snapshots volume of a local cluster, which is reserved for the claim of one namespace. The claim must
 * have the storage class `""`. The folder must exist and belong to user and group 65532, since the kubelet does not
 * change the owner of such volumes.
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

import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import type { Snapshots } from "../../../operator/snapshots/snapshots.ts";
import { NAMESPACE, type Tenancy } from "../tenancy.ts";
import { simulatedStore } from "./simulated-snapshots.ts";

/**
 * Snapshots that save nothing and take note of the pods, by name, that were to be saved; there is no archive of
 * anybody.
 *
 * @param save what it throws is the failure of the save
 */
export async function recordSaves(
  { cluster, client }: Tenancy,
  save: (pod: Pod) => void = () => undefined,
): Promise<{ snapshots: Snapshots; saved: string[] }> {
  const config = await loadClusterConfig({ kubeconfigPath: cluster.kubeconfigPath });
  const saved: string[] = [];
  const snapshots: Snapshots = {
    ...simulatedStore({ client, cluster: config, namespace: NAMESPACE }).snapshots,
    find: async () => undefined,
    findCheckpoint: async () => undefined,
    dropCheckpoint: async () => false,
    namesOf: async () => [],
    setName: async () => "named" as const,
    async save(key, pod, { kind }) {
      save(pod);
      if (kind === undefined) saved.push(pod.metadata.name);
      const nothing = { sha256: "0".repeat(64), sizeBytes: 0, contentBytes: 0, entries: 0, uid: 0, gid: 0 };
      return { ...key, ...nothing, overlayDirs: [], createdAt: new Date().toISOString() };
    },
  };
  return { snapshots, saved };
}

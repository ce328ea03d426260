import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import { importNodeImage, NODE_IMAGE } from "../cluster/images/node-image.ts";
import { makeSnapshotsProgram, readSnapshotsProgram } from "./snapshots-program.ts";
import { makeSnapshotsVolume } from "./snapshots-volume.ts";

/** The snapshots store of a local cluster. */
export interface LocalSnapshots {
  /** The operator's environment variables for it. */
  readonly environment: Readonly<Record<string, string>>;
  /** Installs the volume, the image and the program of the helper pod in a namespace of a complete cluster. */
  make(into: { client: ClusterClient; namespace: string; signal: AbortSignal }): Promise<void>;
}

/**
 * Prepares the snapshots store of a local cluster.
 *
 * @param options.cluster its name, and its folder for volumes
 * @param options.root of this repository
 */
export async function localSnapshots(options: {
  cluster: { name: string; volumesFolder: string };
  root: string;
}): Promise<LocalSnapshots> {
  const { cluster, root } = options;
  const program = await readSnapshotsProgram(root);
  return {
    environment: {
      TENANCY_SNAPSHOT_STORAGE_CLASS: "",
      TENANCY_SNAPSHOT_IMAGE: NODE_IMAGE,
      TENANCY_SNAPSHOT_PROGRAM: program.name,
    },
    async make(into) {
      await Promise.all([
        makeSnapshotsVolume({ ...into, folder: cluster.volumesFolder, size: "10Gi" }),
        makeSnapshotsProgram({ ...into, program }),
        importNodeImage(cluster.name),
      ]);
    },
  };
}

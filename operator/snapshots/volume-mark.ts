import { persistentVolumeClaims } from "../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import { annotation } from "../../crds/labels.ts";
import { SNAPSHOTS_NAME } from "../../crds/snapshots/store-folder.ts";

/**
 * Whether any operator has seen the snapshots volume with its mark, written on the volume's claim
 * (docs/decisions/snapshots.md#a-volume-without-its-mark-is-not-believed). Fails as the client does.
 */
export interface VolumeMark {
  wasSeen(signal: AbortSignal): Promise<boolean>;
  /** Writes that it was. */
  remember(): Promise<void>;
}

export function createVolumeMark(options: { client: ClusterClient; namespace: string }): VolumeMark {
  const { client, namespace } = options;
  const reference = { namespace, name: SNAPSHOTS_NAME };
  return {
    async wasSeen(signal) {
      const { metadata } = await client.get(persistentVolumeClaims, reference, { signal });
      return metadata.annotations?.[annotation.volumeMarked] === "true";
    },
    async remember() {
      const { metadata } = await client.get(persistentVolumeClaims, reference);
      if (metadata.annotations?.[annotation.volumeMarked] === "true") return;
      // Not on a claim that was made meanwhile, whose volume may be another.
      const { resourceVersion } = metadata;
      const body = { metadata: { resourceVersion, annotations: { [annotation.volumeMarked]: "true" } } };
      await client.patch(persistentVolumeClaims, reference, { type: "merge", body });
    },
  };
}

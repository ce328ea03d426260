import { ifFound } from "../client/api-error.ts";
import { persistentVolumeClaims, secrets } from "../client/built-in-resources.ts";
import type { ClusterClient } from "../client/cluster-client.ts";
import { annotation } from "../labels.ts";
import { StoreError } from "./snapshot-store.ts";
import { SNAPSHOTS_LABELS, SNAPSHOTS_NAME } from "./store-folder.ts";

/**
 * Records whether the store ever had its mark. The record is kept in the cluster and not in the store itself
 * (docs/decisions/snapshots.md#a-volume-without-its-mark-is-not-trusted). Throws the errors of the client.
 */
export interface StoreMark {
  /** What a person does who replaced the store on purpose. It follows "If that was intended, ". */
  readonly advice: string;
  wasSeen(signal: AbortSignal): Promise<boolean>;
  /** Records that the store had its mark. */
  remember(): Promise<void>;
}

interface MarkOptions {
  readonly client: ClusterClient;
  readonly namespace: string;
  /** Whether archives in another store are ignored. */
  readonly mayBeEmpty: boolean;
}

/** The record for the snapshots volume: an annotation on its claim. */
export function createVolumeMark({ client, namespace, mayBeEmpty }: MarkOptions): StoreMark {
  const reference = { namespace, name: SNAPSHOTS_NAME };
  return {
    advice: `remove the annotation ${annotation.volumeMarked} from the volume's claim and restart the operator`,
    async wasSeen(signal) {
      const { metadata } = await client.get(persistentVolumeClaims, reference, { signal });
      if (metadata.annotations?.[annotation.volumeMarked] === "true") return true;
      if (mayBeEmpty) return false;
      const secret = await ifFound(client.get(secrets, reference, { signal }));
      return secret?.metadata.annotations?.[annotation.objectStore] !== undefined;
    },
    async remember() {
      const { metadata } = await client.get(persistentVolumeClaims, reference);
      if (metadata.annotations?.[annotation.volumeMarked] === "true") return;
      // `resourceVersion` prevents a write to a claim that was created since, which may have another volume.
      const { resourceVersion } = metadata;
      const body = { metadata: { resourceVersion, annotations: { [annotation.volumeMarked]: "true" } } };
      await client.patch(persistentVolumeClaims, reference, { type: "merge", body });
    },
  };
}

/**
 * The record for object storage: an annotation on the Secret of the snapshots.
 *
 * @param options.store names the bucket and the prefix in it
 */
export function createObjectMark({ client, namespace, mayBeEmpty, store }: MarkOptions & { store: string }): StoreMark {
  const reference = { namespace, name: SNAPSHOTS_NAME };
  return {
    advice: `remove the annotation ${annotation.objectStore} from the Secret ${SNAPSHOTS_NAME} and restart the operator`,
    async wasSeen(signal) {
      const secret = await ifFound(client.get(secrets, reference, { signal }));
      const seen = secret?.metadata.annotations?.[annotation.objectStore];
      if (seen === store) return true;
      if (mayBeEmpty) return false;
      if (seen !== undefined) return true;
      const volume = await ifFound(client.get(persistentVolumeClaims, reference, { signal }));
      return volume?.metadata.annotations?.[annotation.volumeMarked] === "true";
    },
    async remember() {
      await leaveVolume({ client, namespace, store });
      const secret = await ifFound(client.get(secrets, reference));
      if (secret?.metadata.annotations?.[annotation.objectStore] === store) return;
      const annotations = { ...secret?.metadata.annotations, [annotation.objectStore]: store };
      if (secret === undefined) {
        const metadata = { ...reference, labels: SNAPSHOTS_LABELS, annotations };
        await client.create(secrets, { metadata, type: "Opaque" });
      } else {
        await client.replace(secrets, { ...secret, metadata: { ...secret.metadata, annotations } });
      }
    },
  };
}

/** Records on a volume with archives that archives are kept in another store from now on. */
async function leaveVolume({ client, namespace, store }: Omit<MarkOptions, "mayBeEmpty"> & { store: string }) {
  const reference = { namespace, name: SNAPSHOTS_NAME };
  const volume = await ifFound(client.get(persistentVolumeClaims, reference));
  const { annotations } = volume?.metadata ?? {};
  if (annotations?.[annotation.volumeMarked] !== "true" || annotations[annotation.volumeLeft] === store) return;
  const body = { metadata: { annotations: { [annotation.volumeLeft]: store } } };
  await client.patch(persistentVolumeClaims, reference, { type: "merge", body });
}

/** The store that archives were moved to after the snapshots volume was last used; undefined if there is none. */
export async function volumeLeftFor(
  { client, namespace }: Pick<MarkOptions, "client" | "namespace">,
  signal: AbortSignal,
): Promise<string | undefined> {
  const reference = { namespace, name: SNAPSHOTS_NAME };
  const volume = await ifFound(client.get(persistentVolumeClaims, reference, { signal }));
  return volume?.metadata.annotations?.[annotation.volumeLeft];
}

/**
 * Checks that the snapshots volume has the latest archives.
 *
 * @throws StoreError if archives were kept in another store since: tenants would continue from old files
 */
export async function checkVolumeIsLatest(
  options: Pick<MarkOptions, "client" | "namespace">,
  signal: AbortSignal,
): Promise<void> {
  const since = await volumeLeftFor(options, signal);
  if (since === undefined) return;
  throw new StoreError(
    `Cannot keep archives on the snapshots volume: newer archives are in ${since}. ` +
      `Set TENANCY_SNAPSHOT_STORE to that, or copy them to the volume and remove the annotation ` +
      `${annotation.volumeLeft} from the claim ${SNAPSHOTS_NAME}`,
    { isTransient: false },
  );
}

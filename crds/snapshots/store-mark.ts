import { ifFound } from "../client/api-error.ts";
import { persistentVolumeClaims, secrets } from "../client/built-in-resources.ts";
import type { ClusterClient } from "../client/cluster-client.ts";
import { annotation } from "../labels.ts";
import { StoreError } from "./snapshot-store.ts";
import { SNAPSHOTS_LABELS, SNAPSHOTS_NAME } from "./store-folder.ts";

/**
 * Whether anybody has ever seen the store with its mark, kept in the cluster and not in the store itself
 * (docs/decisions/snapshots.md#a-volume-without-its-mark-is-not-trusted). Fails as the client does.
 */
export interface StoreMark {
  /** What a person does where the store was exchanged for another on purpose, after "should that be meant,". */
  readonly advice: string;
  wasSeen(signal: AbortSignal): Promise<boolean>;
  /** Writes that it was. */
  remember(): Promise<void>;
}

interface MarkOptions {
  readonly client: ClusterClient;
  readonly namespace: string;
  /** Whether archives that were seen in another store do not count. */
  readonly mayBeEmpty: boolean;
}

/** Of the snapshots volume: an annotation on its claim. */
export function createVolumeMark({ client, namespace, mayBeEmpty }: MarkOptions): StoreMark {
  const reference = { namespace, name: SNAPSHOTS_NAME };
  return {
    advice: `take the annotation ${annotation.volumeMarked} from the volume's claim and restart the operator`,
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
      // Not on a claim that was created in the meantime, whose volume may differ.
      const { resourceVersion } = metadata;
      const body = { metadata: { resourceVersion, annotations: { [annotation.volumeMarked]: "true" } } };
      await client.patch(persistentVolumeClaims, reference, { type: "merge", body });
    },
  };
}

/**
 * Of object storage: an annotation on the Secret of the snapshots.
 *
 * @param options.store names the bucket and the prefix in it
 */
export function createObjectMark({ client, namespace, mayBeEmpty, store }: MarkOptions & { store: string }): StoreMark {
  const reference = { namespace, name: SNAPSHOTS_NAME };
  return {
    advice: `take the annotation ${annotation.objectStore} from the Secret ${SNAPSHOTS_NAME} and restart the operator`,
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

/** Notes on a volume with archives that they are kept elsewhere from now on. */
async function leaveVolume({ client, namespace, store }: Omit<MarkOptions, "mayBeEmpty"> & { store: string }) {
  const reference = { namespace, name: SNAPSHOTS_NAME };
  const volume = await ifFound(client.get(persistentVolumeClaims, reference));
  const { annotations } = volume?.metadata ?? {};
  if (annotations?.[annotation.volumeMarked] !== "true" || annotations[annotation.volumeLeft] === store) return;
  const body = { metadata: { annotations: { [annotation.volumeLeft]: store } } };
  await client.patch(persistentVolumeClaims, reference, { type: "merge", body });
}

/** The store in which archives are kept since the snapshots volume was used last; undefined where there is none. */
export async function volumeLeftFor(
  { client, namespace }: Pick<MarkOptions, "client" | "namespace">,
  signal: AbortSignal,
): Promise<string | undefined> {
  const reference = { namespace, name: SNAPSHOTS_NAME };
  const volume = await ifFound(client.get(persistentVolumeClaims, reference, { signal }));
  return volume?.metadata.annotations?.[annotation.volumeLeft];
}

/**
 * Finds out whether the snapshots volume has what was saved last.
 *
 * @throws StoreError where archives were kept elsewhere since: tenants would go on from what they had long ago
 */
export async function checkVolumeIsLatest(
  options: Pick<MarkOptions, "client" | "namespace">,
  signal: AbortSignal,
): Promise<void> {
  const since = await volumeLeftFor(options, signal);
  if (since === undefined) return;
  throw new StoreError(
    `Cannot keep archives on the snapshots volume: since it was used they are kept in ${since}, so what it has is old. ` +
      `Set TENANCY_SNAPSHOT_STORE to that, or copy them to the volume and take the annotation ${annotation.volumeLeft} ` +
      `from the claim ${SNAPSHOTS_NAME}`,
    { isTransient: false },
  );
}

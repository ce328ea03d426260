import type { BuildContexts } from "../builds/build-contexts.ts";
import { ifFound } from "../client/api-error.ts";
import { persistentVolumeClaims } from "../client/built-in-resources.ts";
import type { Clock } from "../client/clock.ts";
import type { ClusterClient } from "../client/cluster-client.ts";
import type { ClusterConfig } from "../client/config/cluster-config.ts";
import { bytesOf, isQuantity } from "../environment.ts";
import type { Log } from "../log.ts";
import type { UsageStore } from "../usage/usage-store.ts";
import { createContextClient } from "./context-client.ts";
import { createS3Client } from "./s3/s3-client.ts";
import { describeS3Place, type S3Place } from "./s3/s3-config.ts";
import { createS3Credentials } from "./s3/s3-credentials.ts";
import { createS3Store, type S3Store } from "./s3/s3-store.ts";
import type { SnapshotStore, StoreCall } from "./snapshot-store.ts";
import { createStoreClient } from "./store-client.ts";
import type { StoreConfig, StorePlace, VolumePlace } from "./store-config.ts";
import { createStoreConnection } from "./store-connection.ts";
import { createApiServerEndpoint, createDirectEndpoint, type StoreRights } from "./store-endpoint.ts";
import { SNAPSHOTS_NAME } from "./store-folder.ts";
import { checkVolumeIsLatest, createObjectMark, createVolumeMark, type StoreMark } from "./store-mark.ts";
import { createUsageClient } from "./usage-client.ts";

/** A helper pod runs before its program listens. On a busy node that takes seconds. */
const HELPER_START_MS = 15_000;

/** The store in which the operator and the edge keep tenants' files. */
export interface OpenedStore {
  readonly kind: StorePlace["kind"];
  readonly archives: SnapshotStore;
  readonly contexts: BuildContexts;
  readonly usage: UsageStore;
  readonly mark: StoreMark;
  /**
   * Checks at the start whether the store can keep archives.
   *
   * @throws StoreError that names what is missing
   */
  check(call: StoreCall): Promise<void>;
  close(): void;
}

interface OpenOptions {
  readonly client: ClusterClient;
  /** How to reach the API server. The helper pod may be reached through it. */
  readonly cluster: ClusterConfig;
  readonly namespace: string;
  /** The rights at the helper pod. Those at object storage depend on its credentials. @default "all" */
  readonly rights?: StoreRights | undefined;
  /** The environment with the credentials of object storage. @default the process's own */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  readonly clock?: Clock | undefined;
  readonly log?: Log | undefined;
}

/**
 * Opens the configured store. No request is sent before the first call.
 *
 * @throws Error if there are no credentials
 */
export function openStore(config: Pick<StoreConfig, "place" | "mayBeEmpty">, options: OpenOptions): OpenedStore {
  const { place, mayBeEmpty } = config;
  switch (place.kind) {
    case "volume":
      return openVolume(place, { ...options, mayBeEmpty });
    case "s3": {
      const { client, namespace } = options;
      const mark = createObjectMark({ client, namespace, mayBeEmpty, store: describeS3Place(place) });
      const archives = openS3Store(place, { ...options, wasMarked: mark.wasSeen });
      const { contexts, usageRecords: usage, check, close } = archives;
      return { kind: "s3", archives, contexts, usage, mark, check, close };
    }
    default:
      return place satisfies never;
  }
}

/** @throws Error if there are no credentials */
export function openS3Store(
  place: S3Place,
  options: Pick<OpenOptions, "env" | "clock" | "log"> & { wasMarked?: (signal: AbortSignal) => Promise<boolean> },
): S3Store {
  const { env = process.env, clock, log, wasMarked } = options;
  const { bucket, prefix, region, encryption } = place;
  const credentials = createS3Credentials({ env, region, clock, log });
  const client = createS3Client({ ...place, credentials, clock });
  return createS3Store({ client, bucket, prefix, encryption, wasMarked, clock });
}

function openVolume(place: VolumePlace, options: OpenOptions & { mayBeEmpty: boolean }): OpenedStore {
  const { client, cluster, namespace, rights, mayBeEmpty, clock } = options;
  const mark = createVolumeMark({ client, namespace, mayBeEmpty });
  const endpoint =
    place.access === "direct"
      ? createDirectEndpoint({ client, namespace, rights, clock })
      : createApiServerEndpoint({ client, namespace, rights, config: cluster, clock });
  const connection = createStoreConnection({ endpoint, startMs: HELPER_START_MS, clock });
  const archives = createStoreClient({ connection, wasMarked: mark.wasSeen });
  const contexts = createContextClient({ connection, volumeBytes: () => claimedBytes({ client, namespace }) });
  // The helper pod may be created later, so it is not checked.
  const check = ({ signal }: StoreCall) => checkVolumeIsLatest({ client, namespace }, signal);
  const usage = createUsageClient({ connection, wasMarked: mark.wasSeen });
  return { kind: "volume", archives, contexts, usage, mark, check, close: archives.close };
}

/** The requested size of the volume, which may be a folder on a larger disk. */
async function claimedBytes({
  client,
  namespace,
}: Pick<OpenOptions, "client" | "namespace">): Promise<number | undefined> {
  const claim = await ifFound(client.get(persistentVolumeClaims, { namespace, name: SNAPSHOTS_NAME }));
  const { storage = "" } = claim?.spec.resources?.requests ?? {};
  return isQuantity(storage) ? bytesOf(storage) : undefined;
}

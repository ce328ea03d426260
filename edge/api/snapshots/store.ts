import { isNotFound, NetworkError } from "../../../crds/client/api-error.ts";
import { persistentVolumeClaims, pods } from "../../../crds/client/built-in-resources.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import type { Cluster } from "../../../crds/client/cluster.ts";
import type { EventRecorder } from "../../../crds/client/event-recorder.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import type { Log } from "../../../crds/log.ts";
import type { CurrentQuotas } from "../../../crds/quotas/follow-quotas.ts";
import { mostKept } from "../../../crds/quotas/room.ts";
import { quote } from "../../../crds/quote.ts";
import type { OpenedStore } from "../../../crds/snapshots/open-store.ts";
import { type SnapshotKey, snapshotPath } from "../../../crds/snapshots/snapshot-key.ts";
import {
  type KeptSnapshots,
  type MostKept,
  QuotaError,
  type StoreCall,
  StoreError,
  StoreFullError,
} from "../../../crds/snapshots/snapshot-store.ts";
import { SNAPSHOTS_CONTAINER, SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import type { PageFilter, StorePage } from "../../../crds/snapshots/store-pages.ts";
import type { ClusterCache } from "../../cluster/watch-cluster.ts";
import { HttpError } from "../../http/http-error.ts";

const LIMIT_MS = 60_000;
const RETRY = { "retry-after": "1" };

export interface SnapshotServices {
  readonly cluster: Cluster;
  readonly namespace: string;
  readonly cache: Pick<ClusterCache, "claims">;
  readonly clock: Clock;
  /** Opened by the first call. @throws Error if the store cannot be opened */
  readonly store: () => OpenedStore;
  /** How many versions and bytes are kept. */
  readonly most: MostKept;
  readonly quotas: Pick<CurrentQuotas, "current">;
  /** Records Events about tenants' files. */
  readonly recorder: EventRecorder;
  readonly log: Log;
}

/** What may be kept of a tenant's saved files. */
export function mostKeptOf(
  { tenantId }: SnapshotKey,
  { most, quotas }: Pick<SnapshotServices, "most" | "quotas">,
): MostKept {
  return mostKept(most, quotas.current()?.of(tenantId).limits);
}

/**
 * Calls the store, with errors that help callers of the API.
 *
 * @throws HttpError 503 if the store cannot be reached or fails, 409 if a quota is exceeded, 504 after the time limit,
 * 499   when the client disconnects; StoreConflict and ArchiveError as the store does
 */
export async function askStore<T>(
  work: (store: OpenedStore, call: StoreCall) => Promise<T>,
  services: Pick<SnapshotServices, "clock" | "store"> & { clientGone: AbortSignal | undefined; limitMs?: number },
): Promise<T> {
  const { clock, clientGone, limitMs = LIMIT_MS } = services;
  const store = services.store();
  const { kind } = store;
  const where = kind === "volume" ? "the snapshots volume" : "the snapshots' object storage";
  const began = clock.now();
  try {
    return await work(store, { signal: clientGone ?? new AbortController().signal, timeoutMs: limitMs });
  } catch (cause) {
    if (clientGone?.aborted) throw new HttpError(499, "the client went away");
    if (cause instanceof StoreFullError) throw new HttpError(503, cause.message, { expected: true });
    if (cause instanceof QuotaError) throw new HttpError(409, cause.message);
    const isUnreachable = cause instanceof NetworkError || isNotFound(cause);
    if (isUnreachable && clock.now() - began >= limitMs) {
      throw new HttpError(504, `${where} has not responded after ${limitMs / 1000} s; try again later`);
    }
    if (isUnreachable || (cause instanceof StoreError && cause.isTransient)) {
      throw new HttpError(503, `${where} cannot be reached now; try again`, { headers: RETRY, cause });
    }
    if (cause instanceof StoreError) throw new HttpError(503, `${where} failed; see this server's log`, { cause });
    throw cause;
  }
}

/**
 * Reads the saved files of a tenant; undefined if there never was a volume. Only a store that reports that it has no
 * volume counts as one without, not one that has lost its mark
 * (docs/decisions/snapshots.md#a-volume-without-its-mark-is-not-trusted).
 *
 * @throws HttpError as {@link askStore} and {@link storeState} do
 */
export async function lookAtSnapshots(
  key: SnapshotKey,
  services: SnapshotServices,
  clientGone: AbortSignal | undefined,
): Promise<KeptSnapshots | undefined> {
  if ((await storeState(services)) === "none") return undefined;
  return await askStore(
    async ({ archives, mark }, call) => {
      const kept = await archives.look(key, call);
      if (kept.state !== "unmarked" || !(await mark.wasSeen(call.signal))) return kept;
      throw new StoreError("archives existed before, and none are found now", { isTransient: false });
    },
    { ...services, clientGone },
  );
}

/** Whether a tenant has an archive. @throws as {@link lookAtSnapshots} does */
export async function hasArchive(
  key: SnapshotKey,
  services: SnapshotServices,
  clientGone: AbortSignal | undefined,
): Promise<boolean> {
  const kept = await lookAtSnapshots(key, services, clientGone);
  return kept?.state === "kept" || kept?.state === "unrecorded";
}

/**
 * A page of the tenants and workloads that have archives. @throws HttpError as {@link askStore} and {@link storeState}
 * do
 */
export async function readSnapshotNames(
  filter: PageFilter,
  services: SnapshotServices,
): Promise<StorePage<SnapshotKey>> {
  if ((await storeState(services)) === "none") return { items: [], next: undefined };
  return await askStore(({ archives }, call) => archives.names(filter, call), { ...services, clientGone: undefined });
}

/** The 404 for a tenant without a snapshot. */
export function noSnapshot(key: SnapshotKey): HttpError {
  const { tenantId, workloadRef } = key;
  return new HttpError(
    404,
    `tenant ${quote(tenantId)} has no snapshot of workload ${quote(workloadRef)}: ${snapshotPath(key)} does not exist`,
  );
}

/**
 * Whether the store can be called: `none` if there never was a volume, so that there are no snapshots.
 *
 * @throws HttpError 503 that says what is missing, if the volume exists but its helper pod is not running
 */
export async function storeState(
  services: Pick<SnapshotServices, "cluster" | "namespace" | "store">,
): Promise<"none" | "ready"> {
  const { cluster, namespace } = services;
  if (services.store().kind !== "volume") return "ready";
  const [claim, pod] = await Promise.all([
    cluster(persistentVolumeClaims).named(SNAPSHOTS_NAME).find(),
    cluster(pods).named(SNAPSHOTS_NAME).find(),
  ]);
  if (claim === undefined) return "none";
  const missing = whatIsMissing(pod);
  if (missing === undefined) return "ready";
  const { phase = "Pending" } = claim.status ?? {};
  const volume = phase === "Bound" ? "" : `, and its volume claim ${SNAPSHOTS_NAME} is ${phase}`;
  throw new HttpError(
    503,
    `the snapshots volume cannot be reached: its helper pod ${SNAPSHOTS_NAME} ${missing}${volume}; ` +
      `see kubectl -n ${namespace} describe pod,pvc ${SNAPSHOTS_NAME}`,
    { headers: RETRY },
  );
}

/** A phrase that follows the pod's name; undefined if its container is running. */
function whatIsMissing(pod: Pod | undefined): string | undefined {
  if (pod === undefined) return "does not exist (the operator creates it: check that one is running)";
  if (pod.metadata.deletionTimestamp !== undefined) return "is being deleted";
  const { phase = "Pending", conditions = [], containerStatuses = [] } = pod.status ?? {};
  const state = containerStatuses.find(({ name }) => name === SNAPSHOTS_CONTAINER)?.state;
  if (phase === "Running" && state?.running !== undefined) return undefined;
  const scheduled = conditions.find(({ type }) => type === "PodScheduled");
  const why =
    state?.waiting?.message ??
    state?.waiting?.reason ??
    state?.terminated?.reason ??
    (scheduled?.status === "False" ? scheduled.message : undefined);
  return `is ${phase} and not running${why === undefined ? "" : ` (${why})`}`;
}

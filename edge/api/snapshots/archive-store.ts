import { ifFound, isNotFound } from "../../../crds/client/api-error.ts";
import { persistentVolumeClaims, pods } from "../../../crds/client/built-in-resources.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { KubernetesObject, Pod } from "../../../crds/kubernetes.ts";
import { annotation } from "../../../crds/labels.ts";
import type { Resource } from "../../../crds/resource.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import { SNAPSHOTS_CONTAINER, SNAPSHOTS_NAME, storeCommand } from "../../../crds/snapshots/store-folder.ts";
import { NO_ARCHIVE, storeScripts, UNMARKED } from "../../../crds/snapshots/store-scripts.ts";
import type { ClusterCache } from "../../cluster/watch-cluster.ts";
import { HttpError } from "../../http/http-error.ts";
import type { Kubectl } from "../../kubectl/kubectl.ts";
import { type KubectlError, kubectlError } from "../../kubectl/kubectl-errors.ts";
import { runInContainer } from "../../kubectl/run-in-container.ts";

const LIMIT_MS = 60_000;
const MAX_BYTES = 64 * 1024 * 1024;
const RETRY = { "retry-after": "1" };

/** A script of the store that ended by itself. */
export interface StoreAnswer {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Runs one of the store's scripts in the helper pod.
 *
 * @param action.words the script's own positional parameters
 * @param action.input what the script reads
 * @param action.limitMs how long it may take. @default 60000
 * @throws HttpError 503 where the pod cannot be reached, and where more than 64 MiB come; 504 when the time is up; 499
 *   when the client goes
 */
export async function runInStore(
  action: {
    script: string;
    words: readonly string[];
    namespace: string;
    input?: AsyncIterable<Uint8Array>;
    limitMs?: number;
  },
  options: { kubectl: Kubectl; clock: Clock; clientGone: AbortSignal | undefined },
): Promise<StoreAnswer> {
  const { script, words, namespace, input, limitMs = LIMIT_MS } = action;
  const folder = { namespace, pod: SNAPSHOTS_NAME, container: SNAPSHOTS_CONTAINER };
  const { pod, container, command } = storeCommand(folder, { script, words, limitMs });
  const limits = { timeoutMs: limitMs, maxBytes: MAX_BYTES };
  const run = await runInContainer({ pod, container, command, ...limits, ...(input && { input }) }, options);
  switch (run.kind) {
    case "ended":
      if (run.isCut) throw new HttpError(503, `the snapshots volume says more than ${MAX_BYTES} bytes`);
      return run;
    case "failed":
      throw kubectlError(run.stderr, describe);
    case "late":
      throw new HttpError(504, `the snapshots volume has not answered after ${limitMs / 1000} s; try again later`);
    case "client gone":
      throw new HttpError(499, "the client went away");
    case "stopped":
      throw new HttpError(503, "the server stops; try again", { headers: RETRY });
    default:
      return run satisfies never;
  }
}

function describe(failure: KubectlError): HttpError | undefined {
  switch (failure.kind) {
    case "no pod":
    case "not running":
    case "no program":
      return new HttpError(
        503,
        `the snapshots volume cannot be reached: its helper pod ${SNAPSHOTS_NAME} does not run at the moment`,
        { headers: RETRY },
      );
    case "no node":
      return new HttpError(503, `the node of the helper pod ${SNAPSHOTS_NAME} cannot be reached`, { headers: RETRY });
    case "cut":
      return new HttpError(503, `the connection to the helper pod ${SNAPSHOTS_NAME} broke; try again`, {
        headers: RETRY,
      });
    default:
      return undefined;
  }
}

/**
 * Whether the snapshots volume can be read: `none` where there never was one, so that there are no snapshots.
 *
 * @throws HttpError 503 that says what is missing, where the volume is there and its helper pod does not run
 */
export async function storeState(options: { client: ClusterClient; namespace: string }): Promise<"none" | "ready"> {
  const [claim, pod] = await Promise.all([find(persistentVolumeClaims, options), find(pods, options)]);
  if (claim === undefined) return "none";
  const missing = whatIsMissing(pod);
  if (missing === undefined) return "ready";
  const { phase = "Pending" } = claim.status ?? {};
  const volume = phase === "Bound" ? "" : `, and its volume claim ${SNAPSHOTS_NAME} is ${phase}`;
  throw new HttpError(
    503,
    `the snapshots volume cannot be reached: its helper pod ${SNAPSHOTS_NAME} ${missing}${volume}; ` +
      `see kubectl -n ${options.namespace} describe pod,pvc ${SNAPSHOTS_NAME}`,
    { headers: { "retry-after": "1" } },
  );
}

/** In words, after the pod's name; undefined where its container runs. */
function whatIsMissing(pod: Pod | undefined): string | undefined {
  if (pod === undefined) return "does not exist (the operator makes it, so see that one runs)";
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
  return `is ${phase} and does not run${why === undefined ? "" : ` (${why})`}`;
}

async function find<T extends KubernetesObject>(
  resource: Resource<T>,
  { client, namespace }: { client: ClusterClient; namespace: string },
): Promise<T | undefined> {
  return ifFound(client.get(resource, { namespace, name: SNAPSHOTS_NAME }));
}

/** The 503 of a script that failed on the volume itself; what it said is for the log. */
export function volumeFailure({ exitCode, stderr }: StoreAnswer): HttpError {
  return new HttpError(
    503,
    `the snapshots volume fails; see this server's log, and the volume of the helper pod ${SNAPSHOTS_NAME}`,
    { cause: new Error(`exit code ${exitCode}: ${stderr.trim().slice(-1000)}`) },
  );
}

/** What the snapshot routes work with. */
export interface SnapshotServices {
  readonly client: ClusterClient;
  readonly namespace: string;
  readonly cache: Pick<ClusterCache, "claims">;
  readonly kubectl: Kubectl;
  readonly clock: Clock;
}

/**
 * Whether a tenant has an archive. Only a volume that says itself that there is none counts as one without, and not one
 * that has lost its mark (docs/decisions/snapshots.md#a-volume-without-its-mark-is-not-believed).
 *
 * @throws HttpError 503 where the volume cannot be looked at; as {@link runInStore} does
 */
export async function hasArchive(
  { tenantId, workloadRef }: SnapshotKey,
  services: SnapshotServices,
  clientGone: AbortSignal | undefined,
): Promise<boolean> {
  if ((await storeState(services)) === "none") return false;
  const { kubectl, clock, namespace } = services;
  const command = { script: storeScripts.stat, words: [tenantId, workloadRef, ""], namespace };
  const answer = await runInStore(command, { kubectl, clock, clientGone });
  if (/^\d+\n/.test(answer.stdout)) return true;
  if (answer.exitCode === NO_ARCHIVE) return false;
  if (answer.exitCode === UNMARKED && !(await wasMarked(services))) return false;
  throw volumeFailure(answer);
}

async function wasMarked({ client, namespace }: SnapshotServices): Promise<boolean> {
  try {
    const { metadata } = await client.get(persistentVolumeClaims, { namespace, name: SNAPSHOTS_NAME });
    return metadata.annotations?.[annotation.volumeMarked] === "true";
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}

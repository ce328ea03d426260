import { isPodReady } from "../../../crds/claims/claim-pod.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import type { Cluster } from "../../../crds/client/cluster.ts";
import type { Pod, PodPhase } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import { quote } from "../../../crds/quote.ts";
import type { Activity } from "../../activity.ts";
import { requireFresh } from "../../cluster/freshness.ts";
import { restartsOf } from "../../cluster/pod-trouble.ts";
import { slimPod } from "../../cluster/slim-pod.ts";
import type { ClusterCache } from "../../cluster/watch-cluster.ts";
import { HttpError } from "../../http/http-error.ts";
import type { Channels } from "../../inside/channels.ts";
import type { ChannelsAhead } from "../../inside/channels-ahead.ts";
import type { Kubectl } from "../../kubectl/kubectl.ts";
import { type KubectlError, kubectlError } from "../../kubectl/kubectl-errors.ts";

/**
 * A managed pod by name: from the cache, or from the cluster, since the watch may be behind the claim that named it.
 *
 * @throws HttpError 404 if there is none, or the pod is not managed; 503 while the cache is stale
 */
export async function findInstance(
  name: string,
  { cluster, namespace, cache }: { cluster: Cluster; namespace: string; cache: Pick<ClusterCache, "pods"> },
): Promise<Pod> {
  requireFresh(cache.pods);
  const known = cache.pods.store.get({ namespace, name });
  if (known !== undefined) return known;
  const pod = await cluster(pods).named(name).find();
  if (pod?.metadata.labels?.[label.managed] === "true") return slimPod(pod);
  throw instanceNotFound(name);
}

export interface InstanceServices {
  readonly cluster: Cluster;
  readonly namespace: string;
  readonly cache: Pick<ClusterCache, "pods" | "claims">;
  readonly kubectl: Kubectl;
  /** To the programs in the pods that hold processes and files. */
  readonly channels: Channels;
  readonly channelsAhead: ChannelsAhead;
  readonly activity: Activity;
  readonly clock: Clock;
}

/** The 404 for an instance that does not exist, or a pod that is not managed. */
export function instanceNotFound(name: string): HttpError {
  return new HttpError(404, `instance ${quote(name)} does not exist; GET /api/v1/instances lists the existing ones`);
}

const RETRY = { "retry-after": "1" };

/** The HTTP error of a kubectl failure about an instance. @returns as {@link kubectlError} does */
export function instanceError(stderr: string, { name }: { name: string }): Error {
  return kubectlError(stderr, (failure) => describe(failure, name));
}

function describe(failure: KubectlError, name: string): HttpError | undefined {
  switch (failure.kind) {
    case "no previous run":
      return new HttpError(404, `instance ${quote(name)} has no previous run: its container has never restarted`);
    case "no pod":
      return instanceNotFound(name);
    case "no program":
      return new HttpError(
        400,
        `body.command: cannot be started in the instance: ${failure.reason}; check the program's name`,
      );
    case "not running":
      return new HttpError(409, `instance ${quote(name)} is not running: ${failure.reason}`);
    case "no node":
      return new HttpError(503, `the node of instance ${quote(name)} cannot be reached`, { headers: RETRY });
    case "cut":
      return new HttpError(503, `the connection to instance ${quote(name)} was lost; a command may have run`, {
        headers: RETRY,
      });
    default:
      return undefined;
  }
}

/** The instance record; fields that are unknown, or do not apply to an unclaimed pod, are absent. */
interface InstanceResponse {
  name: string;
  phase: PodPhase;
  ready: boolean;
  restarts: number;
  reason?: string;
  tenantId?: string;
  workloadRef?: string;
  ip?: string;
  labels: Record<string, string>;
  /** ISO 8601, like the times below. */
  createdAt: string;
  lastActivity?: string;
  claimedAt?: string;
}

/**
 * Shows a pod as stored by `slimPod`, for the REST API and the event stream. The claim call that bound a pod is its
 * first activity.
 */
export function instanceResponse(pod: Pod): InstanceResponse {
  const { metadata, status } = pod;
  const { name, labels = {}, annotations = {}, creationTimestamp } = metadata;
  const tenantId = labels[label.tenant];
  const workloadRef = labels[label.workload];
  const claimedAt = annotations[annotation.claimedAt];
  const lastActivity = latest(annotations[annotation.lastActivity], claimedAt);
  return {
    name,
    phase: status?.phase ?? "Pending",
    ready: isPodReady(pod),
    restarts: restartsOf(pod),
    ...(status?.reason !== undefined && { reason: status.reason }),
    ...(tenantId !== undefined && { tenantId }),
    ...(workloadRef !== undefined && { workloadRef }),
    ...(status?.podIP !== undefined && { ip: status.podIP }),
    labels,
    createdAt: creationTimestamp ?? "",
    ...(lastActivity !== undefined && { lastActivity }),
    ...(claimedAt !== undefined && { claimedAt }),
  };
}

/** The later of two times; text that is not a time, such as an edited annotation, is ignored. */
function latest(a: string | undefined, b: string | undefined): string | undefined {
  const [timeA, timeB] = [Date.parse(a ?? ""), Date.parse(b ?? "")];
  if (Number.isNaN(timeA)) return Number.isNaN(timeB) ? undefined : b;
  return timeB > timeA ? b : a;
}

import { leases } from "../crds/client/built-in-resources.ts";
import type { Cluster } from "../crds/client/cluster.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import type { TransportResponse } from "../crds/client/transport.ts";
import type { Lease, Pod } from "../crds/kubernetes.ts";
import { annotation, label } from "../crds/labels.ts";
import { objectPath } from "../crds/resource.ts";

/**
 * How long after the last renewal a Lease that an operator takes may have come from a backup. Operators that run renew
 * it more often, and a successor is there sooner.
 */
const UNKNOWN_AFTER_MS = 60_000;
/** The API server gives both times that are compared in whole seconds. */
const PRECISION_MS = 2000;
/** The value of the annotation until whoever leads has seen which pods there are. */
const UNKNOWN = "unknown";

interface OperatorsLease {
  readonly namespace: string;
  readonly name: string;
}

/**
 * What to write on the operators' Lease when it is taken: that history is unknown, where no operator has led for so
 * long.
 *
 * A cluster's store that is restored from a backup shows warm pods that have been given to a tenant since, and run that
 * tenant's program with its files. The API server cannot tell; but by the Lease in the backup no operator has led since
 * then either. A process that has followed the cluster since before the last renewal knows better, however long no
 * operator led: its watches end when history goes back, and with them its term.
 *
 * @param options.followedForMs for how long this process has followed the cluster
 */
export async function historyOf(
  taken: Lease | undefined,
  options: { client: ClusterClient; reference: OperatorsLease; followedForMs: number; signal: AbortSignal },
): Promise<Record<string, string>> {
  const { client, reference, followedForMs, signal } = options;
  if (taken === undefined) return {};
  const path = objectPath(leases, reference);
  const answer = await client.request({ method: "GET", path, verb: "get", resource: leases.plural, signal });
  const isKnown = Math.abs(sinceRenewalMs(answer)) < Math.max(UNKNOWN_AFTER_MS, followedForMs - PRECISION_MS);
  return isKnown ? {} : { [annotation.historySince]: UNKNOWN };
}

/**
 * How long ago a Lease was renewed, by the API server's clock alone: `renewTime` is of the clock of whoever led, which
 * may differ from that of whoever leads next. NaN where the API server does not say.
 *
 * https://kubernetes.io/docs/reference/using-api/server-side-apply/#managers
 */
function sinceRenewalMs({ headers, body }: Pick<TransportResponse, "headers" | "body">): number {
  const { metadata } = JSON.parse(body.toString("utf8")) as ManagedLease;
  const renewal = metadata.managedFields?.find(({ fieldsV1 }) => fieldsV1?.["f:spec"]?.["f:renewTime"] !== undefined);
  return Date.parse(headers.date ?? "") - Date.parse(renewal?.time ?? "");
}

/** Who wrote which field last, and when. */
interface ManagedLease {
  readonly metadata: {
    readonly managedFields?: readonly { time?: string; fieldsV1?: { "f:spec"?: Record<string, unknown> } }[];
  };
}

/** Says on the operators' Lease that history is unknown, for whoever leads next. */
export async function forgetHistory(cluster: Cluster, reference: OperatorsLease): Promise<void> {
  await writeSince(cluster, reference, UNKNOWN);
}

/**
 * Finds out since when history is known, and writes it on the Lease where it was unknown: since after the newest of the
 * warm pods that there are. Only the API server's own times are compared, since clocks differ.
 *
 * @param told what the Lease said when it was taken
 */
export async function settleHistory(
  told: string | undefined,
  { cluster, reference, pods }: { cluster: Cluster; reference: OperatorsLease; pods: Iterable<Pod> },
): Promise<string | undefined> {
  if (told !== UNKNOWN) return told;
  const made = [...pods]
    .filter(({ metadata }) => metadata.labels?.[label.pool] !== undefined)
    .map(({ metadata }) => metadata.creationTimestamp ?? "");
  const newest = made.sort().at(-1);
  await writeSince(cluster, reference, newest);
  return newest;
}

async function writeSince(
  cluster: Cluster,
  { namespace, name }: OperatorsLease,
  since: string | undefined,
): Promise<void> {
  const held = cluster(leases).in(namespace);
  const lease = await held.named(name).get();
  const { [annotation.historySince]: _, ...others } = lease.metadata.annotations ?? {};
  const annotations = { ...others, ...(since !== undefined && { [annotation.historySince]: since }) };
  await held.of(lease).replace({ ...lease, metadata: { ...lease.metadata, annotations } });
}

/** Whether a warm pod may have been a tenant's by what is missing of the history. No claim may have it then. */
export function isOfUnknownHistory({ metadata }: Pod, since: string | undefined): boolean {
  return since !== undefined && !((metadata.creationTimestamp ?? "") > since);
}

/** How many of the pods are {@link isOfUnknownHistory}. Looks at them only where history is missing. */
export function countUnknown(pods: Iterable<Pod>, since: string | undefined): number {
  if (since === undefined) return 0;
  return [...pods].filter((pod) => isOfUnknownHistory(pod, since)).length;
}

import { leases } from "../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import type { Lease, Pod } from "../crds/kubernetes.ts";
import { annotation, label } from "../crds/labels.ts";

/**
 * How long after the last renewal a Lease that somebody takes may have come from a backup. No operator runs for so long
 * now and then, and then warm pods are made anew for nothing.
 */
const UNKNOWN_AFTER_MS = 60_000;
/** The value of the annotation until whoever leads has seen which pods there are. */
const UNKNOWN = "unknown";

interface OperatorsLease {
  readonly namespace: string;
  readonly name: string;
}

/**
 * What to write on the operators' Lease when it is taken: that history is unknown, where nobody has led for so long.
 *
 * A cluster's store that is restored from a backup shows warm pods that have been given to a tenant since, and run his
 * program with his files. The API server cannot tell; but by the Lease in the backup nobody has led since then either.
 */
export function historyOf(taken: Lease | undefined, now: number): Record<string, string> {
  const renewedAt = Date.parse(taken?.spec?.renewTime ?? "");
  const isKnown = taken === undefined || now - renewedAt < UNKNOWN_AFTER_MS;
  return isKnown ? {} : { [annotation.historySince]: UNKNOWN };
}

/** Says on the operators' Lease that history is unknown, for whoever leads next. */
export async function forgetHistory(client: ClusterClient, reference: OperatorsLease): Promise<void> {
  await writeSince(client, reference, UNKNOWN);
}

/**
 * Finds out since when history is known, and writes it on the Lease where it was unknown: since after the newest of the
 * warm pods that there are. Only the API server's own times are compared, since clocks differ.
 *
 * @param told what the Lease said when it was taken
 */
export async function settleHistory(
  told: string | undefined,
  { client, reference, pods }: { client: ClusterClient; reference: OperatorsLease; pods: Iterable<Pod> },
): Promise<string | undefined> {
  if (told !== UNKNOWN) return told;
  const made = [...pods]
    .filter(({ metadata }) => metadata.labels?.[label.pool] !== undefined)
    .map(({ metadata }) => metadata.creationTimestamp ?? "");
  const newest = made.sort().at(-1);
  await writeSince(client, reference, newest);
  return newest;
}

async function writeSince(client: ClusterClient, reference: OperatorsLease, since: string | undefined): Promise<void> {
  const lease = await client.get(leases, reference);
  const { [annotation.historySince]: _, ...others } = lease.metadata.annotations ?? {};
  const annotations = { ...others, ...(since !== undefined && { [annotation.historySince]: since }) };
  await client.replace(leases, { ...lease, metadata: { ...lease.metadata, annotations } });
}

/** Whether a warm pod may have been a tenant's by what is missing of the history. */
export function isOfUnknownHistory({ metadata }: Pod, since: string | undefined): boolean {
  return since !== undefined && !((metadata.creationTimestamp ?? "") > since);
}

import { isNotFound } from "../crds/client/api-error.ts";
import { createBackoff } from "../crds/client/backoff.ts";
import { leases } from "../crds/client/built-in-resources.ts";
import { type Clock, steadyClock } from "../crds/client/clock.ts";
import type { Cluster, MergePatch } from "../crds/client/cluster.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import type { TransportResponse } from "../crds/client/transport.ts";
import type { Lease, Pod } from "../crds/kubernetes.ts";
import { annotation, label } from "../crds/labels.ts";
import { objectPath } from "../crds/resource.ts";
import { sleep } from "../crds/waits.ts";

/**
 * A Lease may come from a backup if it was not renewed for this long. Running operators renew it more often, and a
 * successor takes it sooner.
 */
const UNKNOWN_AFTER_MS = 60_000;
/** The two compared times of the API server have whole seconds. */
const PRECISION_MS = 2000;
const FORGET_WITHIN_MS = 30_000;
/** The value of the annotation until the leader has seen all pods. */
const UNKNOWN = "unknown";

interface OperatorsLease {
  readonly namespace: string;
  readonly name: string;
}

/**
 * The annotations for the operators' Lease when it is taken: history is unknown if no operator has led for so long.
 *
 * If etcd is restored from a backup, it shows warm pods that a tenant has got since the backup, and that run the
 * tenant's program with its files. The API server does not report a restore. But the Lease in the backup also shows
 * that no operator has led since then. If this process has watched the cluster since before the last renewal, history
 * is known, even if no operator led for long: a restore would end its watches, and its term.
 *
 * @param options.followedForMs for how long this process has watched the cluster
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
 * How long ago a Lease was renewed, by the API server's clock; NaN if it is unknown. `renewTime` comes from the clock
 * of the previous leader, which may differ from this one.
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

/**
 * Writes to the operators' Lease that history is unknown, for the next leader, whatever else is written to it. Tries
 * again for up to 30 s: the API server has only just started.
 */
export async function forgetHistory(
  cluster: Cluster,
  { reference, clock = steadyClock }: { reference: OperatorsLease; clock?: Clock },
): Promise<void> {
  const lease = cluster(leases).in(reference.namespace).named(reference.name);
  const until = clock.now() + FORGET_WITHIN_MS;
  const backoff = createBackoff({ initialMs: 50, maxMs: 2000 });
  for (;;) {
    try {
      await lease.patch(sinceOf(UNKNOWN));
      return;
    } catch (error) {
      // The backup is older than all operators, and so has no warm pods.
      if (isNotFound(error)) return;
      const delayMs = backoff.next();
      if (clock.now() + delayMs > until) throw error;
      await sleep(delayMs, { clock });
    }
  }
}

/**
 * The time since when history is known. If it was unknown, writes to the Lease the creation time of the newest warm
 * pod: history is known for pods created after that. Compares only times of the API server, since clocks differ.
 *
 * @param told the value on the Lease when it was taken
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
  const held = cluster(leases).in(reference.namespace);
  // A write in between is a conflict. It ends the term, and the next one begins with what the Lease has then.
  await held.of(await held.named(reference.name).get()).patch(sinceOf(newest));
  return newest;
}

function sinceOf(since: string | undefined): MergePatch<Lease> {
  return { metadata: { annotations: { [annotation.historySince]: since ?? null } } };
}

/** Whether a tenant may have used a warm pod in the unknown part of history. Then no claim may have it. */
export function isOfUnknownHistory({ metadata }: Pod, since: string | undefined): boolean {
  return since !== undefined && !((metadata.creationTimestamp ?? "") > since);
}

/** The number of pods that are {@link isOfUnknownHistory}. Reads the pods only if history is missing. */
export function countUnknown(pods: Iterable<Pod>, since: string | undefined): number {
  if (since === undefined) return 0;
  return [...pods].filter((pod) => isOfUnknownHistory(pod, since)).length;
}

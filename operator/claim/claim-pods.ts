import type { Claim } from "../../crds/claim.ts";
import { isShown } from "../../crds/claims/claim-pod.ts";
import { isNotFound } from "../../crds/client/api-error.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import { listAll } from "../../crds/client/cluster-client.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import type { OperatorContext } from "../context.ts";

/**
 * The pods bound to a claim: the one that it has now, and the others that are not being deleted yet.
 *
 * A claim has one pod a revision: a cold pod's name follows from the revision, and a warm pod carries it since its
 * binding. An Active claim has the pod that its status names, whose files its tenant is writing; one that is still
 * Pending has the newest, since the binding of a warm pod counts from the moment that it stands on the pod. One in Error
 * has none: a warm pod that shows up only after the failure was given to nobody.
 */
export function claimPods(claim: Claim, { informers }: OperatorContext): { current: Pod | undefined; stale: Pod[] } {
  const bound = [...informers.pods.store.by("claimUid", claim.metadata.uid ?? "")];
  const current = currentPod(claim, bound);
  return { current, stale: bound.filter((pod) => pod !== current && pod.metadata.deletionTimestamp === undefined) };
}

function currentPod(claim: Claim, bound: readonly Pod[]): Pod | undefined {
  if (claim.status?.phase === "Error") return undefined;
  if (claim.status?.phase === "Active") return bound.find((pod) => isShown(pod, claim));
  return bound.filter((pod) => podRevisionOf(pod) >= currentRevision(claim)).sort(newestFirst)[0];
}

/**
 * Reads the pods bound to a claim from the API server into the store: the one that its status names, or where it names
 * none every one.
 *
 * Claims and pods come by watches of their own, and either can be behind the other, a new leader's above all. So a pod
 * that the store does not show is not taken for gone before this, and files are not given up.
 */
export async function readClaimPods(claim: Claim, { client, config, informers }: OperatorContext): Promise<Pod[]> {
  const { namespace } = config;
  const { instanceId } = claim.status ?? {};
  const labelSelector = `${label.tenant}=${claim.spec.tenantId}`;
  const found =
    instanceId === undefined
      ? await listAll(pods, { client, namespace, labelSelector })
      : await client.get(pods, { namespace, name: instanceId }).then((pod) => [pod], none);
  const bound = found.filter(({ metadata }) => metadata.annotations?.[annotation.claimUid] === claim.metadata.uid);
  for (const pod of bound) informers.pods.put(pod);
  return bound;
}

/**
 * Whether the API server has the claim as the store does. Ask before a pod is deleted as stale or a claim is refused as
 * a duplicate: by an old state of the claim, its present pod would look stale. What was read is stored, which starts
 * the claim's next run.
 */
export async function isCurrent(claim: Claim, { client, config, informers }: OperatorContext): Promise<boolean> {
  const { name, resourceVersion } = claim.metadata;
  const [present] = await client.get(claims, { namespace: config.namespace, name }).then((read) => [read], none);
  if (present !== undefined) informers.claims.put(present);
  return present?.metadata.resourceVersion === resourceVersion;
}

function none(error: unknown): never[] {
  if (isNotFound(error)) return [];
  throw error;
}

/** By name where two operators that both believed they lead bound a pod each, so that they agree on one. */
function newestFirst(a: Pod, b: Pod): number {
  return podRevisionOf(b) - podRevisionOf(a) || (a.metadata.name < b.metadata.name ? -1 : 1);
}

/** What a claimed pod is labelled with, to tell it from every other pod, also of the same claim. */
export function bindingOf(claim: Claim, revision: number): string {
  return `${claim.metadata.uid}.${revision}`;
}

/** Which of its claim's pods this one is. */
export function podRevisionOf(pod: Pod): number {
  return Number(pod.metadata.annotations?.[annotation.incarnation] ?? 0);
}

/** Which of its pods the claim has now, counted from 0. */
export function currentRevision(claim: Claim): number {
  return claim.status?.podIncarnation ?? 0;
}

/**
 * With which every pod that the claim has is stale: also a warm one that was bound ahead of the status while a cold one
 * was starting.
 */
export function nextRevision(claim: Claim, { informers }: OperatorContext): number {
  const bound = [...informers.pods.store.by("claimUid", claim.metadata.uid ?? "")];
  return 1 + Math.max(currentRevision(claim), ...bound.map(podRevisionOf));
}

import type { Claim } from "../../crds/claim.ts";
import { podLabelsOf } from "../../crds/claims/claim-labels.ts";
import { isConflict, isNotFound } from "../../crds/client/api-error.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import { clearManagedFields } from "../../crds/client/managed-fields.ts";
import { withDefaults } from "../../crds/defaults.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import type { Workload } from "../../crds/workload.ts";
import { isOfUnknownHistory } from "../history.ts";
import { bindingOf, isBoundTo, podRevisionOf } from "../pod/pod-identity.ts";
import { isolationHash, templateHash } from "../pod/render-pod.ts";
import { nearestFirst } from "../pod/zones.ts";
import type { ClaimContext } from "./context.ts";
import { type GivenFiles, givenAnnotations } from "./session.ts";
import type { ReadAhead } from "./start-program.ts";

/**
 * Binds a warm pod to a claim; undefined if there is none. It takes the pod that has been ready longest, of the newest
 * template if possible, and of these one in the claim's zone if possible. A pod of an older template is taken only if
 * its isolation is that of the newest: without its proxy, or under another runtime, a tenant's program would reach what
 * the workload now forbids. A claim that brings inputs takes none of those: its program may have started without them.
 *
 * No pod is ever given twice. The pod is reserved in memory while it is being bound, so that no other claim of this
 * process takes it. The binding has the pod's resourceVersion as its precondition, so that it fails if another process
 * has bound the pod.
 *
 * @param source `pool+data` takes only a pod of the newest template, which has the workload's overlay directories
 * @param given the annotations that say what files the session has
 * @param readAhead called while a pod is being bound whose program starts next
 * @param revision of the pod; one more than that of a pod that the claim already has
 */
export async function takeWarmPod(
  {
    claim,
    workload,
    revision,
    source,
    given,
    readAhead,
  }: {
    claim: Claim;
    workload: Workload;
    revision: number;
    source: "pool" | "pool+data";
    given: GivenFiles;
    readAhead: ReadAhead;
  },
  context: ClaimContext,
): Promise<Pod | undefined> {
  const { cluster, ownPods, programStarter, promisedPods, reservedPods, snapshots } = context;
  const prestarted = source === "pool+data" ? snapshots : programStarter;
  const { action, timeoutSeconds = null, countBackgroundProcesses } = withDefaults(workload.spec).idle;
  for (;;) {
    const pod = pick({ claim, workload, source }, context);
    if (pod === undefined) return undefined;
    const { uid = "" } = pod.metadata;
    const binding = {
      metadata: {
        ...clearManagedFields,
        labels: {
          ...podLabelsOf(claim.spec),
          [label.tenant]: claim.spec.tenantId,
          [label.binding]: bindingOf(claim, revision),
          [label.pool]: null,
          [label.poolStatus]: null,
        },
        annotations: {
          [annotation.claimUid]: claim.metadata.uid,
          [annotation.claim]: claim.metadata.name,
          [annotation.incarnation]: String(revision),
          [annotation.source]: source,
          ...givenAnnotations(given),
          [annotation.claimedAt]: new Date().toISOString(),
          // The workload may have changed since the pod was created.
          [annotation.idleAction]: action,
          [annotation.idleTimeoutSeconds]: timeoutSeconds?.toString() ?? null,
          [annotation.countBackground]: countBackgroundProcesses ? "true" : null,
        },
      },
    };
    reservedPods.add(uid);
    context.refillPause.taken(workload.metadata.name);
    prestarted.warm(pod);
    if (source === "pool") readAhead();
    try {
      return took(await cluster(pods).of(pod).patch(binding));
    } catch (error) {
      const present = isConflict(error) ? await reread(pod) : undefined;
      // The answer to an earlier binding was lost, and the watch has not shown it yet.
      if (present !== undefined && isBoundTo(present, claim) && podRevisionOf(present) === revision)
        return took(present);
      prestarted.cancelPrestarted(pod);
      const isThere = present !== undefined;
      // A pod that is gone stays reserved until the watch shows its end.
      if (isThere || !(isConflict(error) || isNotFound(error))) reservedPods.delete(uid);
      if (!isConflict(error) && !isNotFound(error)) throw error;
    }
  }

  function offerToNext(): void {
    for (const next of context.informers.claims.store.by("waitingFor", workload.metadata.name)) {
      if (next.metadata.uid === claim.metadata.uid) continue;
      context.enqueueClaim(next);
      return;
    }
  }

  async function reread(pod: Pod): Promise<Pod | undefined> {
    try {
      return await cluster(pods).of(pod).find({ refresh: true });
    } catch (error) {
      prestarted.cancelPrestarted(pod);
      reservedPods.delete(pod.metadata.uid ?? "");
      throw error;
    }
  }

  function took(pod: Pod): Pod {
    const { uid = "" } = pod.metadata;
    const isPromised = promisedPods.claimOf(uid) !== undefined;
    // The claim took another pod than the promised one, which is free now.
    if (promisedPods.forgetClaim(claim.metadata.uid ?? "") && !isPromised) offerToNext();
    ownPods.add(uid);
    reservedPods.delete(uid);
    return pod;
  }
}

function pick(
  { claim, workload, source }: { claim: Claim; workload: Workload; source: "pool" | "pool+data" },
  context: ClaimContext,
): Pod | undefined {
  const { informers, config, editedPods, promisedPods, reservedPods, historySince } = context;
  const { name } = workload.metadata;
  const [template, isolation] = [templateHash(workload, config), isolationHash(workload, config)];
  if (template === undefined || isolation === undefined) return undefined;
  const newest = `${name}/${template}`;
  const isOlderFine = source === "pool" && claim.spec.inputs === undefined;
  for (const value of isOlderFine ? [newest, `${name}/isolation/${isolation}`] : [newest]) {
    for (const pod of nearestFirst(informers.pods.store.by("warm", value), claim.spec.zone, context)) {
      const { uid = "" } = pod.metadata;
      if ((promisedPods.claimOf(uid) ?? claim.metadata.uid) !== claim.metadata.uid) continue;
      if (!reservedPods.has(uid) && !editedPods.has(uid) && !isOfUnknownHistory(pod, historySince)) return pod;
    }
  }
  return undefined;
}

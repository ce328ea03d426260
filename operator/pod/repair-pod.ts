import type { Claim } from "../../crds/claim.ts";
import { isConflict, isNotFound } from "../../crds/client/api-error.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import { clearManagedFields } from "../../crds/client/managed-fields.ts";
import type { Change } from "../../crds/client/watch/informer.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import type { PodContext } from "./context.ts";
import { isEdited, isInstance, markChanges } from "./pod-identity.ts";

/** Stores the pod as it was before another client edited its marks. */
export function noteEdit(change: Change<Pod>, { editedPods }: PodContext): void {
  const { object, previous } = change;
  const { uid = "" } = object.metadata;
  // The operator repairs only instances: another pod would stay in the map.
  if (previous === undefined || editedPods.has(uid) || !isInstance(previous)) return;
  if (isEdited(change)) editedPods.set(uid, previous);
}

/**
 * Restores the marks of a pod that another client changed, if the pod has not changed since it was read.
 *
 * @param owner from `ownerOf`
 * @returns whether there was something to restore
 */
export async function repairPod(pod: Pod, owner: Claim | undefined, context: PodContext): Promise<boolean> {
  const { cluster, editedPods, events, log } = context;
  const { name, uid = "" } = pod.metadata;
  const changes = markChanges(pod, { owner, before: editedPods.get(uid) });
  if (changes === undefined) {
    if (editedPods.delete(uid) && owner !== undefined) context.enqueueClaim(owner);
    return false;
  }
  try {
    await cluster(pods)
      .of(pod)
      .patch({ metadata: { ...clearManagedFields, ...changes } });
  } catch (error) {
    if (!isConflict(error) && !isNotFound(error)) throw error;
    // If the cache is behind, it shows the pod before its binding. This read updates it, which starts the next run.
    await cluster(pods).of(pod).find({ refresh: true });
    return true;
  }
  const keys = [...Object.keys(changes.labels ?? {}), ...Object.keys(changes.annotations ?? {})];
  log.warn({ pod: name, keys }, "edited pod repaired");
  events.record({
    ...{ resource: pods, object: pod, type: "Warning", reason: "EditUndone" },
    message: `only the operator sets ${keys.join(", ")} of this pod: restored`,
  });
  return true;
}

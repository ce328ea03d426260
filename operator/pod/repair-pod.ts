import type { Claim } from "../../crds/claim.ts";
import { isConflict, isNotFound } from "../../crds/client/api-error.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import { clearManagedFields } from "../../crds/client/managed-fields.ts";
import type { Change } from "../../crds/client/watch/informer.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import type { PodContext } from "./context.ts";
import { isEdited, isInstance, markChanges } from "./pod-identity.ts";

/** Remembers a pod as it was before somebody edited its marks. */
export function noteEdit(change: Change<Pod>, { editedPods }: PodContext): void {
  const { object, previous } = change;
  const { uid = "" } = object.metadata;
  // One that no operator repairs would stay noted.
  if (previous === undefined || editedPods.has(uid) || !isInstance(previous)) return;
  if (isEdited(change)) editedPods.set(uid, previous);
}

/**
 * Gives a pod the marks back that somebody changed, on the condition that it is as it was read. Says whether there was
 * something to do.
 *
 * @param owner as `ownerOf` says
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
    // A store that is behind shows a pod as it was before its binding. What is read starts the next run.
    await cluster(pods).of(pod).find({ refresh: true });
    return true;
  }
  const keys = [...Object.keys(changes.labels ?? {}), ...Object.keys(changes.annotations ?? {})];
  log.warn({ pod: name, keys }, "edited pod repaired");
  events.record({
    ...{ resource: pods, object: pod, type: "Warning", reason: "EditUndone" },
    message: `only the operator sets ${keys.join(", ")} of this pod: put back as it was`,
  });
  return true;
}

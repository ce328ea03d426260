import type { Claim } from "../../crds/claim.ts";
import { MOVING } from "../../crds/claims/claim-key.ts";
import { isDestroyed, isShown } from "../../crds/claims/claim-pod.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import { isHeldByLauncher } from "../launcher/launch-command.ts";
import { deletePod } from "../pod/delete-pod.ts";
import { isCurrent } from "./claim-pods.ts";
import type { ClaimContext } from "./context.ts";
import { type Outcome, RECHECK } from "./outcome.ts";
import { runSave } from "./run-save.ts";
import { findSaved, recordVersionKept } from "./save-files.ts";

/**
 * Whether somebody else ends the pod of a session: by a deletion, an eviction, or a drain of its node. Its launcher
 * waits until the files are saved, and the claim goes on with another pod that gets them.
 */
export function isMoving(claim: Claim, pod: Pod | undefined, { exec }: ClaimContext): boolean {
  if (claim.status?.reason === MOVING) return true;
  if (exec === undefined || claim.status?.phase !== "Active" || pod === undefined || !isShown(pod, claim)) return false;
  const hasFiles = pod.metadata.annotations?.[annotation.overlayDirs] !== undefined;
  return hasFiles && isHeldByLauncher(pod) && !isDestroyed(claim);
}

/** Saves the files of a session that {@link isMoving}, and goes on with another pod. */
export async function moveSession(claim: Claim, pod: Pod | undefined, context: ClaimContext): Promise<Outcome> {
  const { reason, instanceId: name, instanceUid = "" } = claim.status ?? {};
  // A destroyed instance is not replaced until it is claimed again.
  if (isDestroyed(claim))
    return {
      next: "write",
      status: { phase: "Active", reason: null, message: null, endpoint: null, usageSince: null },
    };
  if (reason !== MOVING) {
    // A stale claim can lack the mark of a pod that was destroyed on purpose: its files are not to be saved.
    if (!(await isCurrent(claim, context))) return RECHECK;
    const message = `pod "${name}" is being deleted: its files are saved, then the session goes on in a new pod`;
    return { next: "write", status: { phase: "Pending", reason: MOVING, message, endpoint: null } };
  }
  // A node that does not answer saves nothing.
  const isHeld =
    pod !== undefined && isShown(pod, claim) && isHeldByLauncher(pod) && context.nodeSilence.leftMs(pod) !== 0;
  const save = isHeld ? runSave(claim, pod, context) : context.saves.look(instanceUid);
  switch (save?.state) {
    case "running":
      return undefined;
    case "done":
      recordVersionKept(claim, save.value, context);
      if (pod !== undefined) await deletePod(pod, context);
      return moved(save.value.sha256);
    case "failed":
      if (!isHeld) break;
      context.log.warn({ claim: claim.metadata.name, pod: name, error: save.error }, "moving session not saved yet");
      return { requeueAfterMs: save.retryInMs };
    case undefined:
      break;
    default:
      return save satisfies never;
  }
  // Another operator may have saved them before it was ended.
  const saved = await findSaved(claim, context);
  if (saved !== undefined) return moved(saved.sha256);
  return { next: "replace", why: { reason: "PodLost", message: `pod "${name}" ended before its files were saved` } };

  function moved(saved: string): Outcome {
    const message = `pod "${name}" was taken away after its files were saved`;
    return { next: "replace", why: { reason: "Moved", message }, saved };
  }
}

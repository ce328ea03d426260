import type { Claim } from "../../crds/claim.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import type { OperatorContext } from "../context.ts";
import type { ReconcileResult } from "../queue.ts";

/**
 * Releases an Active claim once nobody has used its pod for the time that was stamped on it (spec.md, section 3.5; design.md, section
 * 4, "Idle"); until then it asks to be run again at that moment, so that no claim is looked at in vain.
 */
export async function releaseWhenIdle(claim: Claim, pod: Pod, context: OperatorContext): Promise<ReconcileResult> {
  const leftMs = timeLeftMs(claim, pod);
  if (leftMs === undefined) return undefined;
  if (leftMs > 0) return { requeueAfterMs: leftMs };
  const { client, log } = context;
  const { name, namespace = "", uid, resourceVersion } = claim.metadata;
  // Activity that the store has not seen yet counts too.
  const present = await client.get(pods, { namespace, name: pod.metadata.name });
  const presentLeftMs = timeLeftMs(claim, present) ?? Number.POSITIVE_INFINITY;
  if (presentLeftMs > 0) {
    context.informers.pods.put(present);
    return { requeueAfterMs: presentLeftMs };
  }
  const deleted = await client.delete(
    claims,
    { namespace, name },
    { ...(uid !== undefined && { uid }), ...(resourceVersion !== undefined && { resourceVersion }) },
  );
  if (deleted !== undefined) context.informers.claims.put(deleted);
  log.info({ claim: name, pod: pod.metadata.name }, "claim released, its pod was idle");
  return undefined;
}

/** Milliseconds until the claim counts as idle, negative when it is; undefined when it never does. */
function timeLeftMs({ status }: Claim, { metadata }: Pod): number | undefined {
  const timeoutSeconds = Number(metadata.annotations?.[annotation.idleTimeoutSeconds]);
  const times = [status?.claimedAt, metadata.annotations?.[annotation.lastActivity]].map((time) =>
    Date.parse(time ?? ""),
  );
  const lastUsed = Math.max(...times.filter((time) => !Number.isNaN(time)));
  if (!(timeoutSeconds > 0) || lastUsed === Number.NEGATIVE_INFINITY) return undefined;
  return lastUsed + timeoutSeconds * 1000 - Date.now();
}

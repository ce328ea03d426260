import { isConflict, isNotFound } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation } from "../../../crds/labels.ts";
import type { InstanceServices } from "./find-instance.ts";
import { instanceNotFound } from "./instance-error.ts";

const MAX_TRIES = 5;

/**
 * Force-deletes a pod and saves nothing.
 *
 * Its claim is marked first, so that the operator leaves the claim in the phase it had instead of giving it another pod.
 *
 * @throws HttpError 404 where the pod went meanwhile
 */
export async function destroyInstance(
  pod: Pod,
  services: Pick<InstanceServices, "client" | "namespace" | "cache">,
): Promise<void> {
  const { client, namespace, cache } = services;
  const { name, uid } = pod.metadata;
  await markClaim(pod, services);
  try {
    const left = await client.delete(
      pods,
      { namespace, name },
      { gracePeriodSeconds: 0, ...(uid !== undefined && { uid }) },
    );
    if (left !== undefined) cache.pods.put(left);
  } catch (error) {
    throw isNotFound(error) || isConflict(error) ? instanceNotFound(name) : error;
  }
}

/** Marks the claim that the pod is bound to, where that is still the same object; other writers are waited out. */
async function markClaim(
  { metadata }: Pod,
  { client, namespace, cache }: Pick<InstanceServices, "client" | "namespace" | "cache">,
): Promise<void> {
  const name = metadata.annotations?.[annotation.claim];
  if (name === undefined) return;
  for (let tries = 1; ; tries += 1) {
    try {
      const claim = await client.get(claims, { namespace, name });
      const { uid, resourceVersion } = claim.metadata;
      if (uid !== metadata.annotations?.[annotation.claimUid]) return;
      const body = { metadata: { resourceVersion, annotations: { [annotation.destroyed]: metadata.name } } };
      cache.claims.put(await client.patch(claims, { namespace, name }, { type: "merge", body }));
      return;
    } catch (error) {
      if (isNotFound(error)) return;
      if (!isConflict(error) || tries === MAX_TRIES) throw error;
    }
  }
}

import type { ClaimResponse } from "../../crds/claim-response.ts";
import { sleep } from "../../crds/client/sleep.ts";
import type { ClaimServices } from "../claims/claim-services.ts";
import type { ClusterView } from "../cluster-view.ts";

/** The watch of the pods may be behind that of the claims. */
const BEHIND_MS = 2000;
const LOOK_EVERY_MS = 25;

/**
 * Whether the claim's pod stands, and has the address that the claim shows. Where it does not, the address may be another tenant's by now,
 * and nothing must be sent there.
 *
 * @throws the signal's reason when it is aborted
 */
export async function isPodThere(
  { instanceId, endpoint }: Pick<ClaimResponse, "instanceId" | "endpoint">,
  services: Pick<ClaimServices, "clock" | "namespace"> & { view: Pick<ClusterView, "pods"> },
  signal: AbortSignal,
): Promise<boolean> {
  const { view, namespace, clock } = services;
  const until = clock.now() + BEHIND_MS;
  for (;;) {
    const pod = view.pods.store.get(`${namespace}/${instanceId}`);
    if (pod?.metadata.deletionTimestamp !== undefined) return false;
    if (pod !== undefined && pod.status?.podIP === endpoint?.host) return true;
    if (clock.now() >= until) return false;
    await sleep(LOOK_EVERY_MS, { clock, signal });
  }
}

import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";

/** Whether a pod is bound to a claim, rather than warm in a pool. */
export function isClaimed({ metadata }: Pod): boolean {
  return metadata.annotations?.[annotation.claimUid] !== undefined;
}

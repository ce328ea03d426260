import type { Pod } from "../../crds/kubernetes.ts";

/** Whether commands can be run in the helper pod; its readiness probe may take some seconds more to say so. */
export function isHelperRunning({ metadata, status }: Pod): boolean {
  return metadata.deletionTimestamp === undefined && status?.containerStatuses?.[0]?.state?.running !== undefined;
}

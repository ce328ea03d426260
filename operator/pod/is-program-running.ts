import type { Pod } from "../../crds/kubernetes.ts";
import { WORKLOAD_CONTAINER } from "../../crds/labels.ts";

/** Whether the workload's own program runs at this moment, ready or not. */
export function isProgramRunning({ status }: Pod): boolean {
  const own = status?.containerStatuses?.find(({ name }) => name === WORKLOAD_CONTAINER);
  return own?.state?.running !== undefined;
}

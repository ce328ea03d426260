import type { Pod } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import type { Workload } from "../../crds/workload.ts";
import type { OperatorConfig } from "../config.ts";
import type { PodContext } from "./context.ts";

/** How long the program of a workload may take from the node to its readiness. */
export function startTimeoutMs(workload: Workload | undefined, config: Pick<OperatorConfig, "startTimeoutMs">): number {
  const own = workload?.spec.entrypoint?.startTimeoutSeconds;
  return own === undefined ? config.startTimeoutMs : own * 1000;
}

/** The same for a pod, by what its workload says now. */
export function startTimeoutOf(
  { metadata }: Pod,
  { informers, config }: Pick<PodContext, "informers" | "config">,
): number {
  const name = metadata.labels?.[label.workload] ?? "";
  return startTimeoutMs(informers.workloads.store.get({ namespace: config.namespace, name }), config);
}

import type { Clock } from "../../crds/client/clock.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import type { IndexedBy } from "../informers.ts";
import type { PodContext } from "../pod/context.ts";
import type { PullPlan } from "./pull-plan.ts";

export const prepullIndexes = {
  pods: {
    prepull: (pod: Pod) => pod.metadata.labels?.[label.prepull],
    anyPrepull: (pod: Pod) => (pod.metadata.labels?.[label.prepull] === undefined ? undefined : ""),
  },
};

export interface PrepullMemory {
  /** By the workload's name. */
  pullPlans: Map<string, PullPlan>;
  /** For pauses between tries. */
  clock: Clock;
}

export interface PrepullContext extends PodContext, PrepullMemory {
  informers: PodContext["informers"] & IndexedBy<typeof prepullIndexes>;
}

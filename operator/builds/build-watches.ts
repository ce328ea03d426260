import type { Change } from "../../crds/client/watch/informer.ts";
import { keyAt, keyOf } from "../../crds/client/watch/store.ts";
import type { Job, KubernetesObject, NetworkPolicy, Pod } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import type { Workload } from "../../crds/workload.ts";
import { type Watch, watch } from "../controller.ts";
import { countUnderWay } from "./build-jobs.ts";
import { isFinished } from "./build-progress.ts";
import { isQueued } from "./build-turns.ts";
import type { BuildsContext } from "./context.ts";
import { builderContext } from "./ensure-build.ts";

/** The changes of builds that a workload's reconcile has to see. */
export function buildWatches(given: BuildsContext): Watch[] {
  const context = builderContext(given);
  if (context === undefined) return [];
  const { config, informers, feeds, metrics, buildInformers, serverNow } = context;
  const workloadOf = ({ metadata }: KubernetesObject): string[] => {
    const name = metadata.labels?.[label.workload];
    return name === undefined ? [] : [keyAt({ namespace: config.namespace, name })];
  };
  const hasFinished = (job: Job): boolean => isFinished(job, serverNow());
  const queued = () => [...informers.workloads.store.by("queuedBuild", "")].map(keyOf);

  return [
    watch(buildInformers.jobs, ({ type, object, previous }: Change<Job>) => {
      // Skip Jobs that ended before this operator's term: there may be thousands.
      const hasEnded = type === "deleted" || (hasFinished(object) && previous !== undefined && !hasFinished(previous));
      if (hasEnded || !hasFinished(object)) metrics.buildsUnderWay.set(countUnderWay(context));
      return [...workloadOf(object), ...(hasEnded ? queued() : [])];
    }),
    watch(buildInformers.pods, ({ type, object }: Change<Pod>) => {
      if (type === "deleted") feeds.forget(object.metadata.uid ?? "");
      return workloadOf(object);
    }),
    // While builds run, restore a policy that a person edited or deleted.
    watch(buildInformers.policies, ({ type }: Change<NetworkPolicy>) =>
      type === "added"
        ? []
        : [...buildInformers.jobs.store.values()].filter((job) => !hasFinished(job)).flatMap(workloadOf),
    ),
    watch(buildInformers.configMaps, ({ object }: Change<KubernetesObject>) =>
      [...informers.workloads.store.by("configMap", object.metadata.name)].map(keyOf),
    ),
    // A workload that no longer waits makes room for the next.
    watch(informers.workloads, ({ type, object, previous }: Change<Workload>) =>
      previous !== undefined && isQueued(previous) && (type === "deleted" || !isQueued(object)) ? queued() : [],
    ),
  ];
}

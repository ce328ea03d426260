import type { BuildContexts } from "../../crds/builds/build-contexts.ts";
import { configMaps, jobs, networkPolicies, pods } from "../../crds/client/built-in-resources.ts";
import type { Informer } from "../../crds/client/watch/informer.ts";
import type { Job, KubernetesObject, NetworkPolicy, Pod } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import { metadataOf } from "../../crds/resource.ts";
import type { Workload } from "../../crds/workload.ts";
import { type BackgroundWork, createBackgroundWork } from "../background-work.ts";
import type { OperatorConfig } from "../config.ts";
import { type IndexedBy, type StartInformer, withoutAnnotations } from "../informers.ts";
import type { SnapshotsContext } from "../snapshots/context.ts";
import { type BuildTurns, createBuildTurns, isQueued } from "./build-turns.ts";

export const buildIndexes = {
  workloads: {
    queuedBuild: (workload: Workload) => (isQueued(workload) ? "" : undefined),
    configMap: ({ spec }: Workload) => spec.image.context?.configMapRef?.name,
  },
};

/** Memory about builds. */
export interface BuildMemory {
  /**
   * Contexts that are sent to builds, by the uid of the build's pod, until it is gone; and that are erased, by
   * workload.
   */
  feeds: BackgroundWork<void>;
  buildTurns: BuildTurns;
}

export interface BuildsContext extends SnapshotsContext, BuildMemory {
  informers: SnapshotsContext["informers"] &
    IndexedBy<typeof buildIndexes> & {
      /** Undefined without a registry: then the operator may not read these objects. */
      readonly builds: BuildInformers | undefined;
    };
  contexts: BuildContexts;
  /** Requests a reconcile of the workload of that name. */
  enqueueWorkload(name: string): void;
}

export interface BuildInformers {
  /** The Jobs that build images, in the namespace of builds. */
  jobs: Informer<Job, "workload">;
  /** The pods of these Jobs. */
  pods: Informer<Pod, never>;
  /** The network policy of these pods. */
  policies: Informer<NetworkPolicy, never>;
  /** All ConfigMaps of the workloads' namespace, since workloads name them; metadata only. */
  configMaps: Informer<KubernetesObject, never>;
}

/** Without the namespace of builds, or rights there, no image is built and everything else works. */
export function startBuildInformers(
  start: StartInformer,
  { builds }: Pick<OperatorConfig, "builds">,
): BuildInformers | undefined {
  if (builds === undefined) return undefined;
  const building = { isOptional: true, labelSelector: `${label.build}=true`, namespace: builds.namespace };
  return {
    jobs: start({
      ...{ ...building, resource: jobs },
      indexes: { workload: (job: Job) => job.metadata.labels?.[label.workload] },
    }),
    pods: start({ ...building, resource: pods, indexes: {} }),
    policies: start({ ...building, resource: networkPolicies, indexes: {} }),
    configMaps: start({
      ...{ isOptional: true, resource: metadataOf(configMaps), indexes: {} },
      transform: withoutAnnotations,
    }),
  };
}

export function createBuildMemory({ builds }: Pick<OperatorConfig, "builds">): BuildMemory {
  return {
    feeds: createBackgroundWork({ concurrency: builds?.concurrency ?? 1, maximumBackoffMs: 60_000 }),
    buildTurns: createBuildTurns(),
  };
}

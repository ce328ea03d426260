import type { Claim } from "../../crds/claim.ts";
import { configMaps, secrets } from "../../crds/client/built-in-resources.ts";
import type { Informer } from "../../crds/client/watch/informer.ts";
import type { KubernetesObject, Pod } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import type { Pool } from "../../crds/pool.ts";
import { metadataOf } from "../../crds/resource.ts";
import { type BackgroundWork, createBackgroundWork } from "../background-work.ts";
import type { BuildsContext } from "../builds/context.ts";
import type { OperatorConfig } from "../config.ts";
import type { EnsuredEgress } from "../egress/egress-objects.ts";
import { type IndexedBy, type StartInformer, withoutAnnotations } from "../informers.ts";
import type { ImageConfig, ReadImageConfig } from "../registry/read-image-config.ts";

export const workloadIndexes = {
  claims: {
    // A claim in Error has no pod, so a workload that it names can be deleted.
    using: (claim: Claim) => (claim.status?.phase === "Error" ? undefined : claim.spec.workloadRef),
  },
  pools: { workload: (pool: Pool) => pool.spec.workloadRef },
  pods: { workload: (pod: Pod) => pod.metadata.labels?.[label.workload] },
};

/** What is remembered of workloads until they are gone. */
export interface WorkloadMemory {
  /** By workload uid: the objects of its proxy. */
  ensuredEgress: Map<string, EnsuredEgress>;
  /** Images whose configuration is read from a registry. */
  imageReads: BackgroundWork<ImageConfig>;
  /** By workload uid: which of these is of its image. */
  imageLookups: Map<string, string>;
}

export interface WorkloadContext extends BuildsContext, WorkloadMemory {
  informers: BuildsContext["informers"] &
    IndexedBy<typeof workloadIndexes> & {
      /**
       * The objects of the workloads' proxies; undefined without an image for proxies: then the operator may not read
       * them.
       */
      readonly egress: EgressInformers | undefined;
    };
  readImageConfig: ReadImageConfig;
}

/** Two at once: a name that does not resolve holds a thread of Node's pool, of which there are four. */
const IMAGE_READS = 2;

export function createWorkloadMemory(): WorkloadMemory {
  return {
    ensuredEgress: new Map(),
    imageReads: createBackgroundWork({ concurrency: IMAGE_READS, firstBackoffMs: 10_000, maximumBackoffMs: 600_000 }),
    imageLookups: new Map(),
  };
}

/** Metadata only: it is enough to see that an object has changed. */
export interface EgressInformers {
  /** Managed ConfigMaps only. */
  configMaps: Informer<KubernetesObject, never>;
  /** All Secrets, since workloads name Secrets that are not managed. */
  secrets: Informer<KubernetesObject, never>;
}

export function startEgressInformers(
  start: StartInformer,
  { egress }: Pick<OperatorConfig, "egress">,
): EgressInformers | undefined {
  if (egress.image === undefined) return undefined;
  const shared = { transform: withoutAnnotations, indexes: {} };
  return {
    configMaps: start({ ...shared, resource: metadataOf(configMaps), labelSelector: `${label.managed}=true` }),
    secrets: start({ ...shared, resource: metadataOf(secrets) }),
  };
}

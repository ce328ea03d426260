import type { Claim } from "../../crds/claim.ts";
import { configMaps, secrets } from "../../crds/client/built-in-resources.ts";
import type { Informer } from "../../crds/client/watch/informer.ts";
import type { KubernetesObject, Pod } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import type { Pool } from "../../crds/pool.ts";
import { metadataOf } from "../../crds/resource.ts";
import type { BuildsContext } from "../builds/context.ts";
import type { OperatorConfig } from "../config.ts";
import type { EnsuredEgress } from "../egress/egress-objects.ts";
import { type IndexedBy, type StartInformer, withoutAnnotations } from "../informers.ts";

export const workloadIndexes = {
  claims: {
    // A claim in Error has no pod, so a workload that it names can be deleted.
    using: (claim: Claim) => (claim.status?.phase === "Error" ? undefined : claim.spec.workloadRef),
  },
  pools: { workload: (pool: Pool) => pool.spec.workloadRef },
  pods: { workload: (pod: Pod) => pod.metadata.labels?.[label.workload] },
};

export interface WorkloadContext extends BuildsContext {
  informers: BuildsContext["informers"] &
    IndexedBy<typeof workloadIndexes> & {
      /**
       * The objects of the workloads' proxies; undefined without an image for proxies: then the operator may not read
       * them.
       */
      readonly egress: EgressInformers | undefined;
    };
  /** The objects of each workload's proxy, by workload uid, until the workload is gone. */
  ensuredEgress: Map<string, EnsuredEgress>;
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

import { networkPolicies, pods } from "../crds/client/built-in-resources.ts";
import { shareEqualParts } from "../crds/client/watch/share-equal-parts.ts";
import { claims, pools, workloads } from "../crds/kinds.ts";
import type { Pod } from "../crds/kubernetes.ts";
import { label } from "../crds/labels.ts";
import type { Log } from "../crds/log.ts";
import { buildIndexes, startBuildInformers } from "./builds/context.ts";
import { withoutUsedInputs } from "./claim/claim-inputs.ts";
import { type ClaimContext, claimIndexes, startQuotaCache } from "./claim/context.ts";
import type { OperatorConfig } from "./config.ts";
import type { StartInformer } from "./informers.ts";
import { podIndexes } from "./pod/context.ts";
import { startNodeCache } from "./pod/zones.ts";
import { poolIndexes, startPoolInformers } from "./pool/context.ts";
import { type PrepullContext, prepullIndexes } from "./prepull/context.ts";
import { roomIndexes } from "./room/context.ts";
import type { RoomContext } from "./room/controller.ts";
import { snapshotIndexes, startSnapshotInformers } from "./snapshots/context.ts";
import { startEgressInformers, type WorkloadContext, workloadIndexes } from "./workload/context.ts";

/** The context of all subjects. */
export type WholeContext = ClaimContext & WorkloadContext & PrepullContext & RoomContext;

/** The indexes that the subjects declare. */
export const indexes = {
  claims: {
    ...{ ...podIndexes.claims, ...snapshotIndexes.claims },
    ...{ ...workloadIndexes.claims, ...claimIndexes.claims, ...roomIndexes.claims },
  },
  workloads: buildIndexes.workloads,
  pools: workloadIndexes.pools,
  pods: {
    ...podIndexes.pods,
    ...workloadIndexes.pods,
    ...poolIndexes.pods,
    ...prepullIndexes.pods,
    ...roomIndexes.pods,
  },
};

/** Starts the caches of all subjects. */
export function startCaches(
  start: StartInformer,
  { config, log }: { config: OperatorConfig; log: Log },
): WholeContext["informers"] {
  return {
    claims: start({ resource: claims, indexes: indexes.claims, transform: withoutUsedInputs }),
    workloads: start({ resource: workloads, indexes: indexes.workloads }),
    pools: start({ resource: pools, indexes: indexes.pools }),
    pods: start({
      ...{ resource: pods, labelSelector: `!${label.build}`, indexes: indexes.pods },
      ...{ transform: shareEqualParts<Pod>(), pageSize: 250 },
    }),
    networkPolicies: start({ resource: networkPolicies, labelSelector: `${label.managed}=true`, indexes: {} }),
    nodes: startNodeCache(start, config),
    ...startSnapshotInformers(start),
    ...startPoolInformers(start),
    quotas: startQuotaCache(start, { namespace: config.namespace, log }),
    egress: startEgressInformers(start, config),
    builds: startBuildInformers(start, config),
  };
}

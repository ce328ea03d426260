import { pods } from "../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import { claims, workloads } from "../crds/kinds.ts";
import { label } from "../crds/labels.ts";
import type { Log } from "../crds/log.ts";
import { pairKey } from "./claims/claim-pair.ts";
import type { ClaimWaiters } from "./claims/claim-waiters.ts";
import type { ClusterView } from "./cluster-view.ts";
import { phaseOf } from "./system/phase-of.ts";
import { watchKind } from "./watch-kind.ts";

/**
 * Follows everything that the edge answers from memory, and wakes the calls that wait for a claim.
 *
 * @returns the view; `synced` resolves when all of it is there, `done` rejects where a watch can never be trusted again
 */
export function watchCluster(options: {
  client: ClusterClient;
  namespace: string;
  waiters: ClaimWaiters;
  signal: AbortSignal;
  log: Log;
}): ClusterView & { readonly synced: Promise<unknown>; readonly done: Promise<unknown> } {
  const { waiters, ...shared } = options;
  const view = {
    claims: watchKind({
      ...shared,
      resource: claims,
      indexes: { pair: (claim) => pairKey(claim.spec), tenant: (claim) => claim.spec.tenantId, phase: phaseOf },
      onChange: ({ object }) => waiters.wake(object.spec),
    }),
    workloads: watchKind({ ...shared, resource: workloads, indexes: {} }),
    pods: watchKind({ ...shared, resource: pods, labelSelector: `${label.managed}=true`, indexes: { phase: phaseOf } }),
  };
  const kinds = Object.values(view);
  return {
    ...view,
    synced: Promise.all(kinds.map(({ synced }) => synced)),
    done: Promise.all(kinds.map(({ done }) => done)),
  };
}

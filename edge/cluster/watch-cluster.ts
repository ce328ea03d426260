import type { Claim } from "../../crds/claim.ts";
import { claimKey } from "../../crds/claims/claim-key.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import type { ReportHandlerFailure } from "../../crds/client/watch/handler-failures.ts";
import type { Change } from "../../crds/client/watch/informer.ts";
import { claims, workloads } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import type { Log } from "../../crds/log.ts";
import type { Workload } from "../../crds/workload.ts";
import type { ClaimWaiters } from "./claim-waiters.ts";
import { slimPod } from "./slim-pod.ts";
import { type CachedKind, watchKind } from "./watch-kind.ts";

/** What the edge knows of its namespace without a call: one watch a kind, shared by all requests. */
export interface ClusterCache {
  /** Indexes: `key` by {@link claimKey}, `tenant` by the tenant id, `phase` by the phase. */
  readonly claims: CachedKind<Claim, "key" | "tenant" | "phase">;
  readonly workloads: CachedKind<Workload>;
  /** Managed pods only; index: `phase`. */
  readonly pods: CachedKind<Pod, "phase">;
}

/**
 * Watches everything that the edge answers from memory, and resolves the calls that wait for a claim or its pod.
 *
 * @returns the cache; `synced` resolves after the initial lists, `done` rejects where a watch cannot be resumed
 */
export function watchCluster(options: {
  client: ClusterClient;
  namespace: string;
  waiters: ClaimWaiters;
  /** Called for each change after the initial list. */
  onClaim: (change: Change<Claim>) => void;
  /** Called for each change after the initial list. */
  onPod: (change: Change<Pod>) => void;
  /** Called for each workload of the initial list and each change after it. */
  onWorkload: (name: string) => void;
  onFailure: ReportHandlerFailure;
  signal: AbortSignal;
  log: Log;
}): ClusterCache & { readonly synced: Promise<unknown>; readonly done: Promise<unknown> } {
  const { waiters, onClaim, onPod, onWorkload, ...shared } = options;
  // The initial list is no change.
  const synced = { claims: false, pods: false };
  const cache = {
    claims: watchKind({
      ...shared,
      resource: claims,
      indexes: { key: (claim) => claimKey(claim.spec), tenant: (claim) => claim.spec.tenantId, phase: phaseOf },
      onChange(change) {
        waiters.changed(change.object.spec);
        if (synced.claims) onClaim(change);
      },
    }),
    workloads: watchKind({
      ...shared,
      resource: workloads,
      indexes: {},
      onChange: ({ object }) => onWorkload(object.metadata.name),
    }),
    pods: watchKind({
      ...shared,
      resource: pods,
      labelSelector: `${label.managed}=true`,
      indexes: { phase: phaseOf },
      transform: slimPod,
      onChange(change) {
        const { labels = {} } = change.object.metadata;
        const [tenantId, workloadRef] = [labels[label.tenant], labels[label.workload]];
        if (tenantId !== undefined && workloadRef !== undefined) waiters.changed({ tenantId, workloadRef });
        if (synced.pods) onPod(change);
      },
    }),
  };
  for (const kind of ["claims", "pods"] as const) {
    cache[kind].synced.then(
      () => {
        synced[kind] = true;
      },
      // The caller sees the failure in the cache's own `synced`.
      () => undefined,
    );
  }
  const kinds = Object.values(cache);
  return {
    ...cache,
    synced: Promise.all(kinds.map(({ synced }) => synced)),
    done: Promise.all(kinds.map(({ done }) => done)),
  };
}

/** The phase of an object; one that has no status yet is `Pending`, as pods and claims are born. */
export function phaseOf({ status }: { status?: { phase?: string } | undefined }): string {
  return status?.phase ?? "Pending";
}

import { pods } from "../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import type { ReportHandlerFailure } from "../../crds/client/handler-failures.ts";
import { claims, workloads } from "../../crds/kinds.ts";
import { label } from "../../crds/labels.ts";
import type { Log } from "../../crds/log.ts";
import type { EventHub } from "../api/events/event-hub.ts";
import { publishClaim, publishPod } from "../api/events/publish-change.ts";
import { pairKey } from "./claim-key.ts";
import type { ClaimWaiters } from "./claim-waiters.ts";
import type { ClusterView } from "./cluster-cache.ts";
import { slimPod } from "./slim-pod.ts";
import { watchKind } from "./watch-kind.ts";

/**
 * Follows everything that the edge answers from memory, and wakes the calls that wait for a claim or its pod.
 *
 * @returns the view; `synced` resolves when all of it is there, `done` rejects where a watch can never be trusted again
 */
export function watchCluster(options: {
  client: ClusterClient;
  namespace: string;
  waiters: ClaimWaiters;
  events: Pick<EventHub, "publish">;
  /** Told of each workload that came, changed or went. */
  onWorkload: (name: string) => void;
  onFailure: ReportHandlerFailure;
  signal: AbortSignal;
  log: Log;
}): ClusterView & { readonly synced: Promise<unknown>; readonly done: Promise<unknown> } {
  const { waiters, events, onWorkload, ...shared } = options;
  // What is there when the edge starts is no event.
  const live = { claims: false, pods: false };
  const view = {
    claims: watchKind({
      ...shared,
      resource: claims,
      indexes: { pair: (claim) => pairKey(claim.spec), tenant: (claim) => claim.spec.tenantId, phase: phaseOf },
      onChange(change) {
        waiters.wake(change.object.spec);
        if (live.claims) publishClaim(change, events);
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
        if (tenantId !== undefined && workloadRef !== undefined) waiters.wake({ tenantId, workloadRef });
        if (live.pods) publishPod(change, events);
      },
    }),
  };
  for (const kind of ["claims", "pods"] as const) {
    view[kind].synced.then(
      () => {
        live[kind] = true;
      },
      // The caller hears of it by the view's own `synced`.
      () => undefined,
    );
  }
  const kinds = Object.values(view);
  return {
    ...view,
    synced: Promise.all(kinds.map(({ synced }) => synced)),
    done: Promise.all(kinds.map(({ done }) => done)),
  };
}

/** The phase of an object; one that has no status yet is `Pending`, as pods and claims are born. */
export function phaseOf({ status }: { status?: { phase?: string } | undefined }): string {
  return status?.phase ?? "Pending";
}

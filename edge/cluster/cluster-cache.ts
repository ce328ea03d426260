import type { Claim } from "../../crds/claim.ts";
import type { ReadonlyStore } from "../../crds/client/store.ts";
import type { KubernetesObject, Pod } from "../../crds/kubernetes.ts";
import type { Workload } from "../../crds/workload.ts";

/** The objects of one kind, as the shared watch last saw them. */
export interface WatchedKind<T extends KubernetesObject, Index extends string = never> {
  readonly store: ReadonlyStore<T, Index>;
  /** Takes a write's answer over at once, so that what is read next knows of it. */
  put(object: T): void;
  /** False until the first list is there, and while the watch cannot reach the cluster. */
  inContact(): boolean;
}

/** What the edge sees of its namespace without a call: one watch a kind, shared by all requests. */
export interface ClusterView {
  /** `pair` is found by `pairKey`, `tenant` by the tenant id, `phase` by the phase. */
  readonly claims: WatchedKind<Claim, "pair" | "tenant" | "phase">;
  readonly workloads: WatchedKind<Workload>;
  /** Managed pods only; `phase` is found by the phase. */
  readonly pods: WatchedKind<Pod, "phase">;
}

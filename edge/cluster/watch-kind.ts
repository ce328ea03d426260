import { type Clock, systemClock } from "../../crds/client/clock.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import type { ReportHandlerFailure } from "../../crds/client/watch/handler-failures.ts";
import { type Change, startInformer } from "../../crds/client/watch/informer.ts";
import type { IndexFunction, ReadonlyStore } from "../../crds/client/watch/store.ts";
import type { KubernetesObject } from "../../crds/kubernetes.ts";
import type { Log } from "../../crds/log.ts";
import type { Resource } from "../../crds/resource.ts";
import { createFreshness } from "./freshness.ts";

/** The objects of one kind, as the shared watch last saw them. */
export interface CachedKind<T extends KubernetesObject, Index extends string = never> {
  readonly store: ReadonlyStore<T, Index>;
  /** Takes a write's answer over at once, so that what is read next knows of it. */
  put(object: T): void;
  /** False until the first list is there, and while the watch cannot reach the cluster. */
  isFresh(): boolean;
}

/** Follows one kind of the namespace for as long as the signal lets it. */
export function watchKind<T extends KubernetesObject, Index extends string = never>(options: {
  client: ClusterClient;
  resource: Resource<T>;
  namespace: string;
  labelSelector?: string;
  indexes: Readonly<Record<Index, IndexFunction<T>>>;
  onChange?: (change: Change<T>) => void;
  /** Makes of an object what is stored. */
  transform?: (object: T) => T;
  /** Told of what the functions above throw over one object. */
  onFailure?: ReportHandlerFailure;
  signal: AbortSignal;
  log: Log;
  clock?: Clock;
}): CachedKind<T, Index> & { readonly synced: Promise<void>; readonly done: Promise<void> } {
  const clock = options.clock ?? systemClock;
  const freshness = createFreshness(clock);
  const informer = startInformer<T, Index>({
    ...options,
    clock,
    onState: freshness.onState,
  });
  return {
    store: informer.store,
    synced: informer.synced,
    done: informer.done,
    put: informer.put,
    isFresh: freshness.isFresh,
  };
}

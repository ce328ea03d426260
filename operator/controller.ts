import type { Change, Informer } from "../crds/client/watch/informer.ts";
import type { KubernetesObject } from "../crds/kubernetes.ts";
import type { Queue, Reconciler } from "./queue.ts";

/**
 * Reconciles objects of one kind, and knows after which changes: what `SetupWithManager` sets up in controller-runtime.
 */
export interface Controller<Name extends string = string> extends Reconciler<Name> {
  /** Keys that are reconciled once at the start, whatever there is. */
  readonly initial?: readonly { readonly key: string; readonly afterMs?: number }[];
  readonly watches: readonly Watch[];
}

/** Which changes concern a controller. */
export interface Watch<T extends KubernetesObject = KubernetesObject> {
  readonly informer: Pick<Informer<T, never>, "subscribe">;
  /**
   * The keys to reconcile after a change, as a `MapFunc` of controller-runtime. It decides on the caches, waits for
   * nothing, and may bring up to date what the controller remembers. What is there at the start comes as `added`.
   */
  map(change: Change<T>): Iterable<string>;
}

/** A watch whose map function takes the kind that the informer holds. */
export function watch<T extends KubernetesObject>(
  informer: Pick<Informer<T, never>, "subscribe">,
  map: (change: Change<T>) => Iterable<string>,
): Watch<T> {
  return { informer, map };
}

/**
 * Enqueues for each controller the objects that exist, then what its watches ask for, until the returned function is
 * called.
 */
export function startWatches<Name extends string>(
  controllers: readonly Controller<Name>[],
  queue: Pick<Queue<Name>, "add">,
): () => void {
  const ends = controllers.flatMap(({ name, initial = [], watches }) => {
    for (const { key, ...options } of initial) queue.add(name, key, options);
    return watches.map(({ informer, map }) =>
      informer.subscribe((change) => {
        for (const key of map(change)) queue.add(name, key);
      }),
    );
  });
  return () => {
    for (const end of ends) end();
  };
}

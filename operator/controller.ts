import type { Change, Informer } from "../crds/client/watch/informer.ts";
import type { KubernetesObject } from "../crds/kubernetes.ts";
import type { Queue, Reconciler } from "./queue.ts";

/**
 * Reconciles objects of one kind, and declares the changes that require it, as `SetupWithManager` does in
 * controller-runtime.
 */
export interface Controller<Name extends string = string> extends Reconciler<Name> {
  /** Keys that are always reconciled once at the start. */
  readonly initial?: readonly { readonly key: string; readonly afterMs?: number }[];
  readonly watches: readonly Watch[];
}

/** Maps changes of a cache to keys of a controller. */
export interface Watch<T extends KubernetesObject = KubernetesObject> {
  readonly informer: Pick<Informer<T, never>, "subscribe">;
  /**
   * The keys to reconcile after a change, as a `MapFunc` of controller-runtime. It reads only the caches, does not
   * wait, and may update the controller's memory. Objects that exist at the start come as `added`.
   */
  map(change: Change<T>): Iterable<string>;
}

/** A watch whose map function gets the informer's kind. */
export function watch<T extends KubernetesObject>(
  informer: Pick<Informer<T, never>, "subscribe">,
  map: (change: Change<T>) => Iterable<string>,
): Watch<T> {
  return { informer, map };
}

/**
 * Enqueues, for each controller, the keys of existing objects and of all changes, until the returned function is
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

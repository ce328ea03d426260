import type { Change, Informer } from "../../crds/client/watch/informer.ts";
import { createStore, type IndexFunction, keyOf } from "../../crds/client/watch/store.ts";
import type { KubernetesObject } from "../../crds/kubernetes.ts";
import type { Resource } from "../../crds/resource.ts";
import type { MemoryApi } from "./memory-api.ts";

/** An informer that shows what is written to the API in memory at once. */
export function memoryInformer<T extends KubernetesObject, Index extends string = never>(
  api: MemoryApi,
  options: {
    resource: Resource<T>;
    indexes: Readonly<Record<Index, IndexFunction<T>>>;
    /** Which objects it follows. @default all */
    isSelected?: (object: T) => boolean;
    transform?: (object: T) => T;
  },
): Informer<T, Index> {
  const { resource, isSelected = () => true } = options;
  const store = createStore<T, Index>(options);
  const handlers = new Set<(change: Change<T>) => void>();

  function tell(change: Change<T>): void {
    for (const handler of handlers) handler(change);
  }

  function put(object: T): void {
    const previous = store.get(keyOf(object));
    if (!isSelected(object) || !store.put(object)) return;
    const stored = store.get(keyOf(object)) ?? object;
    tell(previous === undefined ? { type: "added", object: stored } : { type: "modified", object: stored, previous });
  }

  function drop(object: T): void {
    const previous = store.remove(object);
    if (previous !== undefined) tell({ type: "deleted", object, previous });
  }

  api.watch(resource, { put, drop });
  return {
    ...{ store, put, synced: Promise.resolve(), done: Promise.resolve() },
    versions: () => ({ seen: api.version, changed: api.version }),
    subscribe(handler) {
      for (const object of store.values()) handler({ type: "added", object });
      handlers.add(handler);
      return () => handlers.delete(handler);
    },
  };
}

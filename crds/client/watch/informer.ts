import type { KubernetesObject } from "../../kubernetes.ts";
import type { Log } from "../../log.ts";
import type { Resource } from "../../resource.ts";
import { type Clock, systemClock } from "../clock.ts";
import type { ClusterClient } from "../cluster-client.ts";
import { createHandlerFailures, type ReportHandlerFailure } from "./handler-failures.ts";
import { type ListWatchEvent, type ListWatchTimings, listWatch, type Versions } from "./list-watch.ts";
import type { ListWatchState } from "./list-watch-state.ts";
import { compareResourceVersions, createStore, type IndexFunction, keyOf, type ReadonlyStore } from "./store.ts";

/** A change of an object. If another object gets its name, a `deleted` and an `added` follow. */
export interface Change<T extends KubernetesObject> {
  readonly type: "added" | "modified" | "deleted";
  /** The present state of the object; the last state of a deleted one. */
  readonly object: T;
  /** The stored state until now. */
  readonly previous?: T;
}

export interface InformerOptions<T extends KubernetesObject, Index extends string> {
  readonly client: ClusterClient;
  readonly resource: Resource<T>;
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  readonly indexes: Readonly<Record<Index, IndexFunction<T>>>;
  /** Called for each change, in order, after it was stored. */
  readonly onChange?: ((change: Change<T>) => void) | undefined;
  /**
   * Converts an object before it is stored, in place or as a copy: removes unused fields. If it throws, the object is
   * stored unchanged.
   */
  readonly transform?: ((object: T) => T) | undefined;
  /** Called with each error of `onChange`, `transform` or an index. @default it is logged */
  readonly onFailure?: ReportHandlerFailure | undefined;
  readonly onState?: ((state: ListWatchState) => void) | undefined;
  readonly signal: AbortSignal;
  readonly log?: Log | undefined;
  readonly clock?: Clock | undefined;
  readonly random?: (() => number) | undefined;
  readonly pageSize?: number | undefined;
  readonly timings?: Partial<ListWatchTimings> | undefined;
}

export interface Informer<T extends KubernetesObject, Index extends string> {
  readonly store: ReadonlyStore<T, Index>;
  /** Resolves when the first list is stored and its watch is open; rejects if that can never happen. */
  readonly synced: Promise<void>;
  readonly done: Promise<void>;
  /** The resourceVersions of the store; `changed` includes objects that were {@link put} before their watch event. */
  versions(): Versions;
  /** Stores the answer to a write at once, so that the next read of the store sees it. */
  put(object: T): void;
  /**
   * Calls the handler for all stored objects, as `added`, and then for each change, as `AddEventHandler` of client-go.
   *
   * @returns call it to end the subscription
   */
  subscribe(handler: (change: Change<T>) => void): () => void;
}

/** A store that follows a collection of the cluster. */
export function startInformer<T extends KubernetesObject, Index extends string = never>(
  options: InformerOptions<T, Index>,
): Informer<T, Index> {
  const { onChange, clock = systemClock, transform = (object: T): T => object } = options;
  const { onFailure = createHandlerFailures({ log: options.log }) } = options;
  const resource = options.resource.plural;
  const store = createStore<T, Index>({
    indexes: options.indexes,
    onIndexError: (error, { object, index }) => onFailure(error, { object, resource, handler: `index ${index}` }),
    transform: transformed,
  });
  const handlers = new Set(onChange === undefined ? [] : [onChange]);

  function notify(change: Change<T>): void {
    for (const handler of handlers) call(handler, change);
  }

  function call(handler: (change: Change<T>) => void, change: Change<T>): void {
    try {
      handler(change);
    } catch (error) {
      onFailure(error, { object: change.object, resource, handler: "onChange" });
    }
  }

  function subscribe(handler: (change: Change<T>) => void): () => void {
    for (const object of store.values()) call(handler, { type: "added", object });
    handlers.add(handler);
    return () => handlers.delete(handler);
  }

  function transformed(object: T): T {
    try {
      return transform(object);
    } catch (error) {
      onFailure(error, { object, resource, handler: "transform" });
      return object;
    }
  }

  function put(object: T): void {
    const key = keyOf(object);
    const previous = store.get(key);
    if (!store.put(object)) return;
    const stored = store.get(key) ?? object;
    if (previous === undefined) {
      notify({ type: "added", object: stored });
    } else if (previous.metadata.uid === stored.metadata.uid) {
      notify({ type: "modified", object: stored, previous });
    } else {
      notify({ type: "deleted", object: previous, previous });
      notify({ type: "added", object: stored });
    }
  }

  function onEvent(event: ListWatchEvent<T>): void {
    if (event.type === "synced") return;
    if (event.type === "deleted") {
      const previous = store.remove(event.object);
      if (previous !== undefined) notify({ type: "deleted", object: event.object, previous });
    } else {
      put(event.object);
    }
  }

  let putAt = "0";

  const following = listWatch({
    ...options,
    clock,
    onEvent,
    knownObjects: () => store.values(),
    contradicts: store.contradicts,
  });
  return {
    store,
    synced: following.synced,
    done: following.done,
    subscribe,
    put(object) {
      const { resourceVersion = "0" } = object.metadata;
      if (isNewer(resourceVersion, putAt)) putAt = resourceVersion;
      put(object);
    },
    versions() {
      const { seen, changed } = following.versions();
      return { seen, changed: changed !== undefined && isNewer(putAt, changed) ? putAt : changed };
    },
  };
}

function isNewer(a: string, b: string): boolean {
  return (compareResourceVersions(a, b) ?? 0) > 0;
}

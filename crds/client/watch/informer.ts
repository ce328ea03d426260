import type { KubernetesObject } from "../../kubernetes.ts";
import type { Log } from "../../log.ts";
import type { Resource } from "../../resource.ts";
import { type Clock, systemClock } from "../clock.ts";
import type { ClusterClient } from "../cluster-client.ts";
import { createHandlerFailures, type ReportHandlerFailure } from "./handler-failures.ts";
import { type ListWatchEvent, type ListWatchTimings, listWatch, type Versions } from "./list-watch.ts";
import type { ListWatchState } from "./list-watch-state.ts";
import { compareResourceVersions, createStore, type IndexFunction, keyOf, type ReadonlyStore } from "./store.ts";

/** What happened to an object. A new object of an old name is a `deleted` and an `added`. */
export interface Change<T extends KubernetesObject> {
  readonly type: "added" | "modified" | "deleted";
  /** The object as it is now; of a deleted one, its last state. */
  readonly object: T;
  /** What the store held until now. */
  readonly previous?: T;
}

export interface InformerOptions<T extends KubernetesObject, Index extends string> {
  readonly client: ClusterClient;
  readonly resource: Resource<T>;
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
  readonly indexes: Readonly<Record<Index, IndexFunction<T>>>;
  /** Called after the store took each change over, in order. */
  readonly onChange?: ((change: Change<T>) => void) | undefined;
  /**
   * Converts an object before it is stored, in place or as a copy: removes unused fields. If it throws, the object is
   * stored unchanged.
   */
  readonly transform?: ((object: T) => T) | undefined;
  /** Called with what `onChange`, `transform` or an index throws over one object. @default it is logged */
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
  /** Resolves when the store holds the whole first list and follows what comes after it; rejects when it never will. */
  readonly synced: Promise<void>;
  readonly done: Promise<void>;
  /** How far the store has come; `changed` counts what was {@link put} too, which came before its watch event. */
  versions(): Versions;
  /** Stores the answer to a write at once, so that the next look at the store sees it. */
  put(object: T): void;
  /**
   * Calls the handler with every object that the store holds, as `added`, and then as `onChange` is called. As
   * `AddEventHandler` of client-go.
   *
   * @returns ends it
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

import type { KubernetesObject } from "../../kubernetes.ts";
import type { ObjectRef } from "../cluster-client.ts";

/** The key of an object in stores and queues: `namespace/name`, or only the name if it has no namespace. */
export function keyOf(object: KubernetesObject): string {
  return keyAt(object.metadata);
}

/** As {@link keyOf}, from a reference. */
export function keyAt({ namespace, name }: ObjectRef): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

const decimal = /^(0|[1-9][0-9]*)$/;

/**
 * Less than, equal to or greater than 0 if `a` is older than, the same as or newer than `b`; undefined if they have no
 * order.
 *
 * Follows KEP-5504: a resourceVersion is a decimal number of any length, comparable within one resource. Other values
 * (of an aggregated API, or a test) can only be equal or not.
 */
export function compareResourceVersions(a: string, b: string): number | undefined {
  if (a === b) return 0;
  if (!decimal.test(a) || !decimal.test(b)) return undefined;
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : 1;
}

/** The objects that share a value of an index, in the order in which they got it. */
interface ReadonlyBucket<T> extends Iterable<T> {
  readonly size: number;
}

/**
 * A bucket that its store writes to. Most buckets of a unique index have one object, which is stored without a map: 48
 * bytes instead of 184.
 */
class Bucket<T> implements ReadonlyBucket<T> {
  #key: string | undefined;
  #only: T | undefined;
  #many: Map<string, T> | undefined;

  get size(): number {
    if (this.#many !== undefined) return this.#many.size;
    return this.#key === undefined ? 0 : 1;
  }

  /** Replaces the object of the key in its place, or adds it at the end. */
  set(key: string, object: T): void {
    if (this.#many !== undefined) {
      this.#many.set(key, object);
    } else if (this.#key === undefined || this.#key === key) {
      this.#key = key;
      this.#only = object;
    } else {
      this.#many = new Map([
        [this.#key, this.#only as T],
        [key, object],
      ]);
      this.#key = undefined;
      this.#only = undefined;
    }
  }

  delete(key: string): void {
    if (this.#many !== undefined) {
      this.#many.delete(key);
    } else if (this.#key === key) {
      this.#key = undefined;
      this.#only = undefined;
    }
  }

  [Symbol.iterator](): Iterator<T> {
    if (this.#many !== undefined) return this.#many.values();
    return (this.#key === undefined ? [] : [this.#only as T]).values();
  }
}

/** The values of an object in an index. It must always return the same values for the same object. */
export type IndexFunction<T> = (object: T) => Iterable<string> | string | undefined;

export interface ReadonlyStore<T extends KubernetesObject, Index extends string> {
  readonly size: number;
  /** The object with a key of `keyOf`, or with a reference. Objects are shared: never change one. */
  get(at: string | ObjectRef): T | undefined;
  /** The objects with a value in an index. The result is valid until the store changes. */
  by(index: Index, value: string): ReadonlyBucket<T>;
  values(): IterableIterator<T>;
}

export interface Store<T extends KubernetesObject, Index extends string> extends ReadonlyStore<T, Index> {
  /**
   * Stores an object unless the store has a newer state of it. So the answer to a write can be stored at once, and
   * later watch events of older states do not undo it.
   *
   * @returns whether it was stored
   */
  put(object: T): boolean;
  /**
   * Removes the object of a deletion event, and returns the stored state. Another object of the same name, or a newer
   * state than the event, stays.
   *
   * The store remembers the deletion, so that a late answer to a write cannot add the object again.
   */
  remove(object: T): T | undefined;
  /**
   * Whether a list at that resourceVersion cannot contain this state of the object, since a newer state or its deletion
   * happened before the list.
   */
  contradicts(object: T, resourceVersion: string): boolean;
}

/** Enough for any burst: the answer to a write comes at most seconds after the object's deletion event. */
const maxRememberedDeletions = 4096;

const noObjects = new Bucket<never>();

/** Objects by key, with indexes that need no scan. */
export function createStore<T extends KubernetesObject, Index extends string = never>(options: {
  indexes: Readonly<Record<Index, IndexFunction<T>>>;
  /**
   * Called if an index function throws for an object; the object then has no value in that index. @default it is thrown
   */
  onIndexError?: (error: unknown, failed: { object: T; index: string }) => void;
  /** Converts an object before it is stored. @default it is stored unchanged */
  transform?: (object: T) => T;
}): Store<T, Index> {
  const { transform = (object: T): T => object } = options;
  const objects = new Map<string, T>();
  /**
   * The resourceVersion of each deletion, by uid. An object that no longer matches a selector is "deleted" too, and may
   * match again later.
   */
  const deletions = new Map<string, string | undefined>();
  const indexes = Object.entries<IndexFunction<T>>(options.indexes).map(([name, valuesOf]) => ({
    name,
    valuesOf,
    buckets: new Map<string, Bucket<T>>(),
  }));
  const bucketsByIndex = new Map(indexes.map(({ name, buckets }) => [name, buckets]));

  function isOutdated(object: T, held: T | undefined): boolean {
    const { uid, resourceVersion } = object.metadata;
    if (uid !== undefined && deletions.has(uid) && !isNewer(resourceVersion, deletions.get(uid))) return true;
    return held !== undefined && !isNewer(resourceVersion, held.metadata.resourceVersion);
  }

  function valuesUnder({ name, valuesOf }: (typeof indexes)[number], object: T | undefined): readonly string[] {
    if (object === undefined) return [];
    try {
      return listOf(valuesOf(object));
    } catch (error) {
      if (options.onIndexError === undefined) throw error;
      options.onIndexError(error, { object, index: name });
      return [];
    }
  }

  function reindex(key: string, held: T | undefined, object: T | undefined): void {
    for (const index of indexes) {
      const { buckets } = index;
      const before = valuesUnder(index, held);
      const after = valuesUnder(index, object);
      for (const value of before) {
        if (after.includes(value)) continue;
        const bucket = buckets.get(value);
        bucket?.delete(key);
        if (bucket?.size === 0) buckets.delete(value);
      }
      if (object === undefined) continue;
      for (const value of after) {
        let bucket = buckets.get(value);
        if (bucket === undefined) {
          bucket = new Bucket();
          buckets.set(value, bucket);
        }
        bucket.set(key, object);
      }
    }
  }

  function rememberDeletion({ uid, resourceVersion }: T["metadata"]): void {
    if (uid === undefined) return;
    deletions.set(uid, resourceVersion);
    if (deletions.size <= maxRememberedDeletions) return;
    for (const oldest of deletions.keys()) {
      deletions.delete(oldest);
      break;
    }
  }

  return {
    get size() {
      return objects.size;
    },
    get: (at) => objects.get(typeof at === "string" ? at : keyAt(at)),
    by: (index, value) => bucketsByIndex.get(index)?.get(value) ?? noObjects,
    values: () => objects.values(),
    put(object) {
      const key = keyOf(object);
      const held = objects.get(key);
      // Check this first: it is cheaper than the transform, and each write that was put comes again as an event.
      if (isOutdated(object, held)) return false;
      const stored = transform(object);
      objects.set(key, stored);
      reindex(key, held, stored);
      return true;
    },
    remove(object) {
      rememberDeletion(object.metadata);
      const key = keyOf(object);
      const held = objects.get(key);
      if (held === undefined || held.metadata.uid !== object.metadata.uid) return undefined;
      if (isNewer(held.metadata.resourceVersion, object.metadata.resourceVersion, { unknown: false })) return undefined;
      objects.delete(key);
      reindex(key, held, undefined);
      return held;
    },
    contradicts(object, listedAt) {
      const { uid = "", resourceVersion } = object.metadata;
      return [deletions.get(uid), objects.get(keyOf(object))?.metadata.resourceVersion].some(
        (known) => isNewer(known, resourceVersion, { unknown: false }) && !isNewer(known, listedAt, { unknown: true }),
      );
    },
  };
}

/** Whether `a` is newer than `b`; `unknown` if their versions have no order. */
function isNewer(a: string | undefined, b: string | undefined, { unknown } = { unknown: true }): boolean {
  if (a === undefined || b === undefined) return unknown;
  const order = compareResourceVersions(a, b);
  return order === undefined ? unknown : order > 0;
}

function listOf(values: Iterable<string> | string | undefined): readonly string[] {
  if (values === undefined) return [];
  return typeof values === "string" ? [values] : [...values];
}

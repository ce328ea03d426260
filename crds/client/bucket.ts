/** The objects that share a value of an index, in the order in which they came to share it. */
export interface ReadonlyBucket<T> extends Iterable<T> {
  readonly size: number;
}

/**
 * A bucket that its store writes to. Most buckets of a unique index hold one object, so that one is held without a map: 48 bytes
 * instead of 184.
 */
export class Bucket<T> implements ReadonlyBucket<T> {
  #key: string | undefined;
  #only: T | undefined;
  #many: Map<string, T> | undefined;

  get size(): number {
    if (this.#many !== undefined) return this.#many.size;
    return this.#key === undefined ? 0 : 1;
  }

  /** Replaces the object under the key where it stands, or adds it at the end. */
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

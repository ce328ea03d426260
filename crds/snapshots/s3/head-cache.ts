/** A cache of heads. The head of an ETag never changes. */
export interface HeadCache<Head> {
  get(name: string, etag: string): Head | undefined;
  put(name: string, read: { readonly head: Head; readonly etag: string }): void;
}

/**
 * When the cache is full, a random head is dropped. Lists always read all heads in the same order. If the oldest or the
 * least used head were dropped, a list with one head more than the cache holds would never find a cached head.
 */
export function createHeadCache<Head>(
  most: number,
  { random = Math.random }: { random?: () => number } = {},
): HeadCache<Head> {
  const places = new Map<string, number>();
  const heads: { readonly name: string; readonly etag: string; readonly head: Head }[] = [];
  return {
    get(name, etag) {
      const found = heads[places.get(name) ?? -1];
      return found?.etag === etag ? found.head : undefined;
    },
    put(name, { head, etag }) {
      const place = places.get(name) ?? (heads.length < most ? heads.length : Math.floor(random() * most));
      const before = heads[place];
      if (before !== undefined) places.delete(before.name);
      heads[place] = { name, etag, head };
      places.set(name, place);
    },
  };
}

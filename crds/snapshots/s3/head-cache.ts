/** Heads that were read. A head never changes under its ETag. */
export interface HeadCache<Head> {
  get(name: string, etag: string): Head | undefined;
  put(name: string, read: { readonly head: Head; readonly etag: string }): void;
}

/**
 * Lists read all heads in one order, again and again. If the oldest or the least used head made room, a list of one head
 * more than there is room for would find none of them. So any head does.
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

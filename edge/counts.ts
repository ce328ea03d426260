/** Counts by key; a key with count 0 is removed. */
export interface Counts {
  /** The number of keys. */
  readonly size: number;
  of(key: string): number;
  add(key: string): void;
  /** @returns whether it was the last one of the key */
  remove(key: string): boolean;
}

export function createCounts(): Counts {
  const counts = new Map<string, number>();
  const of = (key: string): number => counts.get(key) ?? 0;
  return {
    get size() {
      return counts.size;
    },
    of,
    add: (key) => void counts.set(key, of(key) + 1),
    remove(key) {
      const left = of(key) - 1;
      if (left > 0) counts.set(key, left);
      else counts.delete(key);
      return left <= 0;
    },
  };
}

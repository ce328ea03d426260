/** A set of entries of an archive, by their numbers in its table: a bit for each, the lowest of a byte first. */
export interface EntryBits {
  readonly bytes: Uint8Array;
  has(number: number): boolean;
  add(number: number): void;
  delete(number: number): void;
}

/** @param bytes of the set; of zeros for an empty one */
export function createEntryBits(bytes: Uint8Array): EntryBits {
  const byteOf = (number: number): number => bytes[number >> 3] ?? 0;
  const bitOf = (number: number): number => 1 << (number & 7);
  return {
    bytes,
    has: (number) => (byteOf(number) & bitOf(number)) !== 0,
    add(number) {
      bytes[number >> 3] = byteOf(number) | bitOf(number);
    },
    delete(number) {
      bytes[number >> 3] = byteOf(number) & ~bitOf(number);
    },
  };
}

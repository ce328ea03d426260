import { createNumberColumn } from "./number-column.ts";

/** Numbers names in the order in which they are added, with 16 to 32 bytes per name. */
export interface PathIndex {
  /** The number of a name. A new name is added. */
  add(name: string): number;
  /** @returns -1 if the name was not added */
  find(name: string): number;
  /**
   * Adds all folders of a path, from the first to the last.
   *
   * @param take is called with the end of each folder's name
   */
  addFolders(path: string, take: (number: number, end: number) => void): void;
  readonly size: number;
}

const FIRST_SLOTS = 1024;

/**
 * A set of strings would take 100 to 200 bytes per name, and an archive has up to a million. So only a hash of 64 bits
 * is stored: among a million names, the chance that two have the same hash is 3 in 100 million. Names are bytes, one
 * per character (latin1).
 *
 * A tenant who creates two names with the same hash can only make their own archive be refused: a name that was added
 * is always found.
 */
export function createPathIndex(): PathIndex {
  let size = 0;
  /** For each slot, the number of its name plus one; 0 for an empty slot. */
  let slots = new Uint32Array(FIRST_SLOTS);
  const low = createNumberColumn(Uint32Array);
  const high = createNumberColumn(Uint32Array);
  /** The hash of the last name that was looked up, or of its beginning. */
  let lowHash = 0;
  let highHash = 0;

  function begin(): void {
    lowHash = 0x1747b28c;
    highHash = 0x41c6ce57;
  }

  function hash(name: string, { start, end }: { start: number; end: number }): void {
    let [one, two] = [lowHash | 0, highHash | 0];
    for (let at = start; at < end; at += 1) {
      const byte = name.charCodeAt(at);
      one = Math.imul(one ^ byte, 0x85ebca6b);
      one ^= one >>> 15;
      two = Math.imul(two ^ byte, 0xc2b2ae35);
      two ^= two >>> 13;
    }
    lowHash = one >>> 0;
    highHash = two >>> 0;
  }

  /** The slot of a hash, or the empty slot where it would be added. */
  function slotOf(lowest: number, highest: number): number {
    const mask = slots.length - 1;
    let slot = lowest & mask;
    for (let number = slots[slot] ?? 0; number !== 0; number = slots[slot] ?? 0) {
      if (low.get(number - 1) === lowest && high.get(number - 1) === highest) break;
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  function grow(): void {
    slots = new Uint32Array(slots.length * 2);
    for (let number = 0; number < size; number += 1) slots[slotOf(low.get(number), high.get(number))] = number + 1;
  }

  function addHashed(): number {
    if (size * 2 === slots.length) grow();
    const slot = slotOf(lowHash, highHash);
    const known = slots[slot] ?? 0;
    if (known !== 0) return known - 1;
    low.set(size, lowHash);
    high.set(size, highHash);
    size += 1;
    slots[slot] = size;
    return size - 1;
  }

  return {
    get size() {
      return size;
    },
    find(name) {
      begin();
      hash(name, { start: 0, end: name.length });
      return (slots[slotOf(lowHash, highHash)] ?? 0) - 1;
    },
    add(name) {
      begin();
      hash(name, { start: 0, end: name.length });
      return addHashed();
    },
    addFolders(path, take) {
      begin();
      for (let start = 0, end = path.indexOf("/"); end !== -1; start = end, end = path.indexOf("/", end + 1)) {
        hash(path, { start, end });
        take(addHashed(), end);
      }
    },
  };
}

import { seededRandom } from "../bench/load/open-loop.ts";

/** A sequence of decisions. The same seed gives the same sequence. */
export interface Decisions {
  /** From 0 (inclusive) to 1. */
  number(): number;
  /** A whole number; both ends are included. */
  between(least: number, most: number): number;
  chance(probability: number): boolean;
  pick<T>(from: readonly T[]): T;
}

/**
 * Returns the decisions of one part of a run. Each part has its own sequence, independent of the others.
 *
 * @param part such as `faults`, or a tenant
 */
export function decisionsOf(seed: number, part: string): Decisions {
  let mixed = seed;
  for (const character of part) mixed = Math.imul(mixed ^ (character.codePointAt(0) ?? 0), 0x01000193) >>> 0;
  const number = seededRandom(mixed);
  return {
    number,
    between: (least, most) => least + Math.floor(number() * (most - least + 1)),
    chance: (probability) => number() < probability,
    pick<T>(from: readonly T[]): T {
      if (from.length === 0) throw new Error("Cannot pick from nothing");
      return from[Math.floor(number() * from.length)] as T;
    },
  };
}

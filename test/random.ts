import { seededRandom } from "../scripts/bench/load/open-loop.ts";

/** Whole numbers from 0 to below a bound, the same for each seed. */
export function createRandom(seed: number): (below: number) => number {
  const random = seededRandom(seed);
  return (below) => Math.floor(random() * below);
}

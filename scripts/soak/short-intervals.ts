import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** In the bundle of an operator: what it says of an interval, whose name bundlers may have changed. */
const LEAST = /(\bseconds\d* === 0 \|\| seconds\d* >=) 30\b/g;
const FIELD = "checkpointSeconds";

/**
 * Makes a copy of an operator's program that takes checkpoints at intervals of a second and more. The least interval is
 * about the load of a cluster, and is longer than most sessions of the soak.
 *
 * @returns the path of the copy; of the program itself if it takes no checkpoints
 * @throws Error if the limit is not found
 */
export function allowShortIntervals(bundle: string, folder: string): string {
  const text = readFileSync(bundle, "utf8");
  if (!text.includes(FIELD)) return bundle;
  const found = text.match(LEAST)?.length ?? 0;
  if (found !== 1) throw new Error(`Cannot shorten the intervals of checkpoints: ${bundle} has ${found} limits`);
  const path = join(folder, "operator.mjs");
  writeFileSync(path, text.replace(LEAST, "$1 1"));
  return path;
}

/** The same of the definition of a kind; the reviver of a parser. */
export function allowShortIntervalsIn(key: unknown, value: unknown): unknown {
  if (key !== FIELD || typeof value !== "object" || value === null) return value;
  return { ...value, "x-kubernetes-validations": undefined };
}

/** What can be measured, in the order in which it is. */
export const PATHS = [
  "existing",
  "cold-simulated",
  "pool",
  "pool-burst",
  "refill",
  "pool-rate",
  "scale",
  "cold",
  "pool+data",
  "cold+data",
  "http",
] as const;

export type PathName = (typeof PATHS)[number];

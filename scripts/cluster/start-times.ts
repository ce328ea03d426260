import { appendFileSync } from "node:fs";

/** The variable with the path of a file. Each start of a control plane or cluster adds a line with its seconds. */
export const START_TIMES = "TENANCY_START_TIMES";

/** Starts something. Records how long that took if the variable is set, as it is for the report of a test run. */
export async function timeStart<T>(start: () => Promise<T>): Promise<T> {
  const path = process.env[START_TIMES];
  if (path === undefined) return start();
  const started = performance.now();
  const result = await start();
  appendFileSync(path, `${((performance.now() - started) / 1000).toFixed(2)}\n`);
  return result;
}

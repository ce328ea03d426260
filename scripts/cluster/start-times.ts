import { appendFileSync } from "node:fs";

/** Names a file that each start of a control plane or cluster adds its seconds to, one a line. */
export const START_TIMES = "TENANCY_START_TIMES";

/** Starts something and writes down how long that took, where somebody asks for it: the report of a test run does. */
export async function timeStart<T>(start: () => Promise<T>): Promise<T> {
  const path = process.env[START_TIMES];
  if (path === undefined) return start();
  const started = performance.now();
  const result = await start();
  appendFileSync(path, `${((performance.now() - started) / 1000).toFixed(2)}\n`);
  return result;
}

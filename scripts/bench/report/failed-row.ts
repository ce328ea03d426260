import type { Row } from "./row.ts";
import { summarise } from "./summarise.ts";

/** The row of a path that could not be measured at all. */
export function failedRow(path: string, error: unknown): Row {
  const row = summarise({ path, samplesMs: [], missed: 0, failures: {} });
  return { ...row, error: error instanceof Error ? error.message : String(error) };
}

import { linkSignals, orAborted } from "../../crds/waits.ts";
import type { Log } from "../cluster/log.ts";
import type { Measurement } from "./report/measurement.ts";

/** The result of one path: its measurement, or why it could not be measured. */
export type PathResult =
  | { readonly kind: "measured"; readonly measurements: readonly Measurement[] }
  | { readonly kind: "failed"; readonly path: string; readonly error: unknown };

/**
 * Measures one path within its limit. A failure is a result, so the other paths are still measured.
 *
 * @throws the signal's reason if the whole bench is stopped
 */
export async function runPath(options: {
  path: string;
  limitMs: number;
  run(signal: AbortSignal): Promise<readonly Measurement[]>;
  log: Log;
  signal: AbortSignal;
}): Promise<PathResult> {
  const { path, limitMs, log, signal } = options;
  const began = performance.now();
  const over = linkSignals(signal);
  const timer = setTimeout(() => over.abort(new Error(`not done within ${limitMs / 1000} s`)), limitMs);
  log(`-> ${path}`);
  try {
    // A measurement that ignores the signal must not delay the rest.
    const measurements = await orAborted(options.run(over.signal), over.signal);
    log(`ok ${path} (${((performance.now() - began) / 1000).toFixed(1)} s)`);
    return { kind: "measured", measurements };
  } catch (error) {
    signal.throwIfAborted();
    log(`FAILED ${path}: ${error instanceof Error ? error.message : error}`);
    return { kind: "failed", path, error };
  } finally {
    clearTimeout(timer);
    over.close();
  }
}

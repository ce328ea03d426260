import type { Log } from "../cluster/log.ts";
import type { Measurement } from "./report/measurement.ts";

/** What became of one path: what was measured, or why it could not be. */
export type PathResult =
  | { readonly kind: "measured"; readonly measurements: readonly Measurement[] }
  | { readonly kind: "failed"; readonly path: string; readonly error: unknown };

/**
 * Measures one path within its limit; its failure is a result, so that the other paths are measured all the same.
 *
 * @throws the signal's reason when the whole bench is stopped
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
  const over = new AbortController();
  const timer = setTimeout(() => over.abort(new Error(`not done within ${limitMs / 1000} s`)), limitMs);
  const either = AbortSignal.any([signal, over.signal]);
  log(`-> ${path}`);
  try {
    const running = options.run(either);
    // What does not heed the signal must not hold the rest up.
    running.catch(() => undefined);
    const measurements = await Promise.race([running, rejectedWhenAborted(either)]);
    log(`ok ${path} (${((performance.now() - began) / 1000).toFixed(1)} s)`);
    return { kind: "measured", measurements };
  } catch (error) {
    signal.throwIfAborted();
    log(`FAILED ${path}: ${error instanceof Error ? error.message : error}`);
    return { kind: "failed", path, error };
  } finally {
    clearTimeout(timer);
  }
}

function rejectedWhenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

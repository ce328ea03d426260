// A terminal sends a signal to the whole process group, and npm and bootstrap.mjs pass it on. So one Ctrl-C may arrive
// three times.
const SAME_MS = 1000;

/** Calls back at every SIGINT and SIGTERM. Those within a second of the first count as the same signal. */
export function onInterrupt(handle: (signal: NodeJS.Signals) => void): void {
  let handledAt = Number.NEGATIVE_INFINITY;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      const now = performance.now();
      if (now - handledAt < SAME_MS) return;
      handledAt = now;
      handle(signal);
    });
  }
}

// A group of processes gets a signal at once, and npm and bootstrap.mjs in it pass theirs on: one Ctrl-C may come three
// times.
const SAME_MS = 1000;

/** Calls back at every SIGINT and SIGTERM; those within a second of the first are the same one. */
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

/**
 * Sends at planned moments whether or not earlier sends have ended, and waits for all of them.
 *
 * A sender that waits for its answers sends less while the server is slow and so leaves out the times that matter (coordinated
 * omission): here each send is told its intended moment, from which its time is to be counted.
 *
 * @param arrivalsMs milliseconds from the start, ascending
 * @param send is given the number of the send and its intended moment, on the clock of `performance.now`; must not reject
 */
export async function openLoop(
  arrivalsMs: readonly number[],
  options: { send(index: number, intendedAt: number): Promise<void>; signal: AbortSignal },
): Promise<void> {
  const { send, signal } = options;
  const under: Promise<void>[] = [];
  const startedAt = performance.now();
  for (const [index, arrivalMs] of arrivalsMs.entries()) {
    const intendedAt = startedAt + arrivalMs;
    await until(intendedAt);
    signal.throwIfAborted();
    under.push(send(index, intendedAt));
  }
  await Promise.all(under);
}

/** Timers count in whole milliseconds, so the last one is waited out turn by turn of the event loop. */
async function until(at: number): Promise<void> {
  for (let leftMs = at - performance.now(); leftMs > 0; leftMs = at - performance.now()) {
    if (leftMs > 1.5) await new Promise((resolve) => setTimeout(resolve, leftMs - 1));
    else await new Promise((resolve) => setImmediate(resolve));
  }
}

export interface WaitUntilOptions {
  /** What is waited for, as it reads after "Cannot wait any longer for". */
  what: string;
  limitMs: number;
  /** @default 50 */
  intervalMs?: number;
  signal?: AbortSignal;
  /** Adds to the error message, for instance the end of a log. */
  explain?: () => string;
}

/**
 * Resolves with the first answer of `check` that is neither undefined nor false; an error that it throws ends the wait.
 *
 * @throws Error when the limit passes first
 */
export async function waitUntil<Answer>(
  check: () => Promise<Answer | undefined | false> | Answer | undefined | false,
  options: WaitUntilOptions,
): Promise<Answer> {
  const end = performance.now() + options.limitMs;
  for (;;) {
    const answer = await check();
    if (answer !== undefined && answer !== false) return answer;
    if (performance.now() >= end) {
      const explanation = options.explain?.() ?? "";
      throw new Error(
        `Cannot wait any longer for ${options.what}: ${options.limitMs / 1000} s have passed${explanation && `\n${explanation}`}`,
      );
    }
    await pause(options.intervalMs ?? 50, options.signal);
    options.signal?.throwIfAborted();
  }
}

/**
 * Resolves after a time, or at once when the signal is aborted; a caller that passes a signal must check it afterwards.
 *
 * @param milliseconds how long to wait
 */
export function pause(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const finish = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, milliseconds);
    signal?.addEventListener("abort", finish);
  });
}

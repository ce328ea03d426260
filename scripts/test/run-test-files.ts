import type { TestFile } from "./find-test-files.ts";

export interface RunTestFilesOptions {
  /** How many run beside each other. */
  atOnce: number;
  /** How long a file took when it last ran. */
  lastSeconds(file: TestFile): number | undefined;
  signal: AbortSignal;
  run(file: TestFile): Promise<void>;
}

/**
 * Runs files beside each other, those that are to be alone first and one by one; the longest start first, so that none
 * of them is waited for at the end. One that has never run counts as long as its limit.
 */
export async function runTestFiles(files: readonly TestFile[], options: RunTestFilesOptions): Promise<void> {
  const seconds = (file: TestFile): number => options.lastSeconds(file) ?? file.limitSeconds;
  const longestFirst = files.toSorted((a, b) => seconds(b) - seconds(a));
  await runQueue(
    longestFirst.filter(({ isAlone }) => isAlone),
    { ...options, atOnce: 1 },
  );
  await runQueue(
    longestFirst.filter(({ isAlone }) => !isAlone),
    options,
  );
}

async function runQueue(queue: TestFile[], { atOnce, signal, run }: RunTestFilesOptions): Promise<void> {
  async function worker(): Promise<void> {
    for (let file = queue.shift(); file !== undefined && !signal.aborted; file = queue.shift()) await run(file);
  }
  await Promise.all(Array.from({ length: atOnce }, worker));
}

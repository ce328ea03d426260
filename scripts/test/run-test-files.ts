import type { TestFile } from "./find-test-files.ts";

export interface RunTestFilesOptions {
  /** How many run at the same time. */
  atOnce: number;
  /** How many additional files that mostly wait run at the same time. */
  waitingAtOnce: number;
  /** How long a file took when it last ran. */
  lastSeconds(file: TestFile): number | undefined;
  signal: AbortSignal;
  run(file: TestFile): Promise<void>;
}

/**
 * Runs files at the same time. Files that must run alone run first, one by one. The others start in the order of their
 * last time, the longest first, so that no long file runs alone at the end. A file that has never run counts with its
 * limit.
 */
export async function runTestFiles(files: readonly TestFile[], options: RunTestFilesOptions): Promise<void> {
  const { atOnce, waitingAtOnce, signal, run } = options;
  const seconds = (file: TestFile): number => options.lastSeconds(file) ?? file.limitSeconds;
  const longestFirst = files.toSorted((a, b) => seconds(b) - seconds(a));
  const alone = longestFirst.filter(({ isAlone }) => isAlone);
  const others = longestFirst.filter(({ isAlone, waits }) => !isAlone && !waits);
  const waiting = longestFirst.filter(({ isAlone, waits }) => !isAlone && waits);

  async function work(...queues: TestFile[][]): Promise<void> {
    const next = () => queues.find((queue) => queue.length > 0)?.shift();
    for (let file = next(); file !== undefined && !signal.aborted; file = next()) await run(file);
  }
  await work(alone);
  await Promise.all([
    ...Array.from({ length: waitingAtOnce }, () => work(waiting)),
    ...Array.from({ length: atOnce }, () => work(others, waiting)),
  ]);
}

import type { TestFile } from "./find-test-files.ts";

export interface RunTestFilesOptions {
  /** How many run beside each other. */
  atOnce: number;
  /** How many of one kind do. @default as many as of all */
  atMost?: Readonly<Record<string, number>> | undefined;
  /** How long a file took when it last ran. */
  lastSeconds(file: TestFile): number | undefined;
  signal: AbortSignal;
  run(file: TestFile): Promise<void>;
}

/**
 * Runs files beside each other, those that are to be alone first and one by one; the longest start first, so that none of them is
 * waited for at the end. One that has never run counts as long as its limit.
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

async function runQueue(queue: TestFile[], options: RunTestFilesOptions): Promise<void> {
  const { atOnce, atMost = {}, signal, run } = options;
  const running = new Map<string, number>();
  const count = (kind: string, by: number): Map<string, number> => running.set(kind, (running.get(kind) ?? 0) + by);
  const hasRoom = ({ kind }: TestFile): boolean => (running.get(kind) ?? 0) < (atMost[kind] ?? atOnce);

  // One that finds no room ends: as many others as may run of what is left are at it.
  async function worker(): Promise<void> {
    while (!signal.aborted) {
      const index = queue.findIndex(hasRoom);
      const [file] = index === -1 ? [] : queue.splice(index, 1);
      if (file === undefined) return;
      count(file.kind, 1);
      await run(file);
      count(file.kind, -1);
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker));
}

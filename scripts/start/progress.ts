export interface Progress {
  /** Runs a named step, says when it begins, and how long it took. */
  step<T>(name: string, work: () => Promise<T>): Promise<T>;
  /** A line about what the present step does. */
  detail(line: string): void;
  /** Names of the steps that are under way. */
  running(): string[];
  /** How long all of it took. */
  total(): void;
}

/** Tells a person what long work is doing, with elapsed times. */
export function createProgress(print: (line: string) => void = console.log): Progress {
  const started = performance.now();
  const seconds = (since: number) => `${((performance.now() - since) / 1000).toFixed(1)} s`;
  const running = new Set<string>();
  return {
    async step(name, work) {
      const began = performance.now();
      print(`-> ${name}`);
      running.add(name);
      try {
        const result = await work();
        print(`ok ${name} (${seconds(began)})`);
        return result;
      } finally {
        running.delete(name);
      }
    },
    running: () => [...running],
    detail: (line) => print(`   ${line}`),
    total: () => print(`\nready in ${seconds(started)}; Ctrl-C stops it`),
  };
}

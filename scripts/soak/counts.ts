/** How often what happened. */
export interface Counts {
  add(what: string, times?: number): void;
  get(what: string): number;
  /** Those whose name begins so, by what follows. */
  startingWith(beginning: string): [what: string, times: number][];
}

export function createCounts(): Counts {
  const counts = new Map<string, number>();
  return {
    add: (what, times = 1) => void counts.set(what, (counts.get(what) ?? 0) + times),
    get: (what) => counts.get(what) ?? 0,
    startingWith: (beginning) =>
      [...counts]
        .filter(([what]) => what.startsWith(beginning))
        .map(([what, times]): [string, number] => [what.slice(beginning.length), times])
        .sort(([a], [b]) => a.localeCompare(b)),
  };
}

/** Runs work of the same name one after the other. */
export interface Turns {
  take<T>(name: string, work: () => Promise<T>): Promise<T>;
}

export function createTurns(): Turns {
  const last = new Map<string, Promise<unknown>>();
  return {
    async take(name, work) {
      const before = last.get(name);
      const turn = (async () => {
        await before;
        return await work();
      })();
      const ended = turn.then(
        () => undefined,
        () => undefined,
      );
      last.set(name, ended);
      try {
        return await turn;
      } finally {
        if (last.get(name) === ended) last.delete(name);
      }
    },
  };
}

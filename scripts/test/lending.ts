/** Something that test files use one after the other, each as if it were new. */
export interface Lendable {
  /** What a file is told of it. */
  readonly environment: NodeJS.ProcessEnv;
  /** @throws Error when it cannot be made what it was at first */
  reset(): Promise<void>;
  end(): Promise<void>;
}

export interface Lending {
  /**
   * Lends one to a test file: an idle one, or else a new one.
   *
   * @param use is told what the file's environment is to say of it; nothing where none can be started
   */
  lend<T>(use: (environment: NodeJS.ProcessEnv) => Promise<T>): Promise<T>;
  /** Ends those that are idle. */
  stop(): Promise<void>;
}

/**
 * Starts what test files share when it is needed, and ends what a file has left in another state for good.
 *
 * @param start makes the next one, which is told its number
 */
export function lending(
  start: (number: number) => Promise<Lendable>,
  { what, log }: { what: string; log: (message: string) => void },
): Lending {
  const idle: Lendable[] = [];
  let started = 0;

  async function startOrSay(): Promise<Lendable | undefined> {
    started += 1;
    try {
      return await start(started);
    } catch (error) {
      log(`a ${what} cannot be lent: ${(error as Error).message}`);
      return undefined;
    }
  }

  return {
    async lend(use) {
      const lent = idle.pop() ?? (await startOrSay());
      if (lent === undefined) return use({});
      try {
        return await use(lent.environment);
      } finally {
        try {
          await lent.reset();
          idle.push(lent);
        } catch (error) {
          log(`a ${what} is not used again: ${(error as Error).message}`);
          await lent.end();
        }
      }
    },
    async stop() {
      await Promise.all(idle.splice(0).map((one) => one.end()));
    },
  };
}
